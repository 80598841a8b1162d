//! A published bucket of addons, to be spoiled file by file before it is put anywhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use windlass_cloud_api::ObjectContent;

/// The manifest of the first operating system, which every machine boots first.
const MANIFEST: &str = "amd64-usr/1/torcx_manifest.json";

/// The files of a bucket, by their path in it.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub(super) objects: BTreeMap<String, ObjectContent>,
}

impl Bucket {
    /// What lies in a directory now; archives stay there, and a later publication changes none of them.
    pub(super) fn read(folder: &Path) -> Self {
        let mut bucket = Bucket { objects: BTreeMap::new() };
        bucket.take(folder, folder);
        bucket
    }

    fn take(&mut self, top: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).expect("a bucket is a directory").flatten() {
            let path = entry.path();
            let key = path.strip_prefix(top).expect("it lies below").to_str().expect("its names are text").to_owned();
            if path.is_dir() {
                self.take(top, &path);
            } else if key.ends_with(".tar.gz") {
                self.objects.insert(key, archive(&path));
            } else if !entry.file_name().to_string_lossy().starts_with('.') {
                let text = fs::read_to_string(&path).expect("manifests and signatures are text");
                self.objects.insert(key, ObjectContent::Text(text));
            }
        }
    }

    /// The text of the first system's manifest.
    pub fn manifest(&self) -> String {
        match &self.objects[MANIFEST] {
            ObjectContent::Text(text) => text.clone(),
            ObjectContent::File { .. } => panic!("a manifest is text"),
        }
    }

    /// Without a file: `""` is the manifest, `.asc` its signature.
    pub fn without(mut self, ending: &str) -> Self {
        self.objects.remove(&format!("{MANIFEST}{ending}")).expect("it is there");
        self
    }

    /// With another manifest, or another signature of it.
    pub fn with(mut self, ending: &str, text: &str) -> Self {
        self.objects.insert(format!("{MANIFEST}{ending}"), ObjectContent::Text(text.to_owned()));
        self
    }

    /// Offers one file where another should be: the first system's with the second's, for example.
    pub fn mixed(mut self, from: &str, to: &str) -> Self {
        let moved: Vec<_> = self.objects.iter().filter(|(path, _)| path.starts_with(from)).collect();
        let moved: Vec<_> = moved.into_iter().map(|(path, file)| (path.replacen(from, to, 1), file.clone())).collect();
        assert!(!moved.is_empty(), "{from} is not there");
        self.objects.extend(moved);
        self
    }

    /// With one byte of the package's archive for the first system changed; the changed copy is kept in a folder.
    #[expect(clippy::disallowed_methods, reason = "a test's own file; nobody reads half of it")]
    pub fn spoilt(mut self, package: &str, folder: &Path) -> Self {
        for (path, content) in &mut self.objects {
            if path.starts_with(&format!("amd64-usr/1/packages/{package}/"))
                && let ObjectContent::File { path: good, .. } = content
            {
                let mut bytes = fs::read(&*good).expect("an archive can be read");
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                let bad = folder.join(good.file_name().expect("an archive has a name"));
                fs::write(&bad, bytes).expect("the folder can be written");
                *content = archive(&bad);
            }
        }
        self
    }
}

fn archive(path: &Path) -> ObjectContent {
    let digest = Sha256::digest(fs::read(path).expect("an archive can be read"));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    ObjectContent::File { path: path.to_owned(), digest: format!("sha256:{digest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> Bucket {
        let text = |name: &str| ObjectContent::Text(name.to_owned());
        let files = [MANIFEST.to_owned(), format!("{MANIFEST}.asc"), "amd64-usr/2/torcx_manifest.json".to_owned()];
        Bucket { objects: files.into_iter().map(|path| (path.clone(), text(&path))).collect() }
    }

    #[test]
    fn files_go_change_and_take_the_place_of_others() {
        assert_eq!(bucket().manifest(), MANIFEST);
        assert_eq!(bucket().without(".asc").objects.len(), 2);
        assert_eq!(bucket().with("", "other").manifest(), "other");
        let mixed = bucket().mixed("amd64-usr/2/", "amd64-usr/1/");
        assert_eq!(mixed.manifest(), "amd64-usr/2/torcx_manifest.json");
        assert_eq!(mixed.objects.len(), 3);
    }

    #[test]
    fn an_archive_loses_one_byte_and_not_its_length() {
        let dir = tempfile::tempdir().expect("a directory");
        let (good, bad) = (dir.path().join("good"), dir.path().join("bad"));
        let package = good.join("amd64-usr/1/packages/kubelet/1.36.3");
        fs::create_dir_all(&package).and_then(|()| fs::create_dir_all(&bad)).expect("directories");
        fs::File::create(package.join("kubelet.tar.gz")).and_then(|file| file.set_len(9)).expect("an archive");
        let spoilt = Bucket::read(&good).spoilt("kubelet", &bad);
        let ObjectContent::File { path, .. } = spoilt.objects.values().next().expect("one") else { panic!("text") };
        let bytes = fs::read(path).expect("it is there");
        assert_eq!((bytes.len(), bytes.iter().filter(|byte| **byte != 0).count()), (9, 1));
    }
}
