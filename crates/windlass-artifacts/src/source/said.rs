//! What Go says while it works, as progress. Module downloads and package names pass by in their hundreds; everything
//! else is for a person, and stays in the error if the build fails.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_steps::host::{Heard, Stream};

use crate::progress::{Happened, Teller};

/// Listens to `go list`, which gets the modules.
pub(super) struct Getting<'a> {
    teller: Teller<'a>,
    modules: AtomicUsize,
}

impl<'a> Getting<'a> {
    pub(super) fn new(teller: Teller<'a>) -> Self {
        Getting { teller, modules: AtomicUsize::new(0) }
    }

    pub(super) fn hear(&self, stream: Stream, line: &str) -> Heard {
        if stream == Stream::Out {
            return Heard::Keep;
        }
        if line.starts_with("go: downloading ") {
            self.modules.fetch_add(1, Ordering::Relaxed);
            self.teller.tell(Happened::Detail(line.to_owned()));
            return Heard::Drop;
        }
        if !line.trim().is_empty() {
            self.teller.line(line);
        }
        Heard::Keep
    }

    /// How many modules were not in Go's cache.
    pub(super) fn modules(&self) -> usize {
        self.modules.load(Ordering::Relaxed)
    }
}

/// Listens to `go build -v`, which names each package as it begins to compile it, but not those in its cache.
pub(super) struct Compiling<'a> {
    teller: Teller<'a>,
    binary: &'a str,
    packages: HashSet<&'a str>,
    main: Option<&'a str>,
    begun: AtomicUsize,
}

impl<'a> Compiling<'a> {
    /// `packages` is what `go list -deps` printed: one per line, each after those that it needs.
    pub(super) fn new(teller: Teller<'a>, binary: &'a str, packages: &'a str) -> Self {
        let main = packages.lines().last();
        Compiling { teller, binary, packages: packages.lines().collect(), main, begun: AtomicUsize::new(0) }
    }

    /// How many packages there are in all.
    pub(super) fn count(&self) -> usize {
        self.packages.len()
    }

    pub(super) fn hear(&self, stream: Stream, line: &str) -> Heard {
        if !self.packages.contains(line) {
            return Getting::new(self.teller).hear(stream, line);
        }
        let done = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.teller.tell(Happened::Compiling { binary: self.binary.to_owned(), done, of: self.count() });
        if self.main == Some(line) {
            // The last one to be compiled is small; what takes long then is the linker, which says nothing.
            self.teller.line(format!("{}: linking", self.binary));
        }
        Heard::Drop
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::progress::Progress;

    fn told(hear: impl Fn(Teller<'_>)) -> Vec<Happened> {
        let told = Mutex::new(Vec::new());
        let observer = |progress: Progress| told.lock().unwrap().push(progress.happened);
        hear(Teller { what: "tool 1", observer: &observer });
        told.into_inner().unwrap()
    }

    #[test]
    fn downloads_pass_by_and_are_counted_and_the_rest_is_kept() {
        let news = told(|teller| {
            let getting = Getting::new(teller);
            assert_eq!(getting.hear(Stream::Err, "go: downloading k8s.io/api v0.36.3"), Heard::Drop);
            assert_eq!(getting.hear(Stream::Err, "go: k8s.io/api: checksum mismatch"), Heard::Keep);
            assert_eq!(getting.hear(Stream::Err, ""), Heard::Keep);
            assert_eq!(getting.hear(Stream::Out, "k8s.io/api/core/v1"), Heard::Keep);
            assert_eq!(getting.modules(), 1);
        });
        let detail = Happened::Detail("go: downloading k8s.io/api v0.36.3".to_owned());
        assert_eq!(news, [detail, Happened::Line("go: k8s.io/api: checksum mismatch".to_owned())]);
    }

    #[test]
    fn packages_are_counted_and_after_the_last_one_comes_the_linker() {
        let news = told(|teller| {
            let compiling = Compiling::new(teller, "tool", "fmt\nexample.org/lib\nexample.org/tool\n");
            for (line, heard) in [
                ("fmt", Heard::Drop),
                ("# example.org/lib", Heard::Keep),
                ("lib.go:1:1: undefined", Heard::Keep),
                ("example.org/tool", Heard::Drop),
            ] {
                assert_eq!(compiling.hear(Stream::Err, line), heard, "{line}");
            }
        });
        let compiling = |done| Happened::Compiling { binary: "tool".to_owned(), done, of: 3 };
        let line = |text: &str| Happened::Line(text.to_owned());
        let lines = [line("# example.org/lib"), line("lib.go:1:1: undefined")];
        let wanted: Vec<_> =
            [compiling(1)].into_iter().chain(lines).chain([compiling(2), line("tool: linking")]).collect();
        assert_eq!(news, wanted);
    }
}
