//! Names in archives: what a member's path and a link's target may look like.

use super::Refusal;

/// A member's path with plain components only; the root itself is the empty path.
///
/// One leading `./` is taken, because `tar -C dir -c .` writes it; nothing else that needs interpreting is.
pub(crate) fn member_path(raw: &[u8], limit: usize) -> Result<String, Refusal> {
    let text = plain_text(raw, limit)?;
    if text.starts_with('/') {
        return Err(Refusal::AbsolutePath);
    }
    let path = text.strip_prefix("./").unwrap_or(text);
    let path = path.strip_suffix('/').unwrap_or(path);
    if text == "." || (path.is_empty() && text == "./") {
        return Ok(String::new());
    }
    for component in path.split('/') {
        match component {
            ".." => return Err(Refusal::ParentComponent),
            "" | "." => return Err(Refusal::EmptyComponent),
            long if long.len() > 255 => return Err(Refusal::LongPath { limit: 255 }),
            _ => {}
        }
    }
    Ok(path.to_owned())
}

/// A symbolic link's target, if following it cannot leave the destination.
///
/// `..` is taken at the front only: after a name it would climb from wherever that name, perhaps itself a link,
/// leads to. The front ones climb from the link's own directory, which is a real one.
pub(super) fn link_target(link: &str, raw: &[u8], limit: usize) -> Result<String, Refusal> {
    let target = plain_text(raw, limit)?;
    let outside = || Refusal::LinkOutside { target: target.to_owned() };
    if target.is_empty() || target.starts_with('/') {
        return Err(outside());
    }
    let depth = link.split('/').count() - 1;
    let climbs = target.split('/').take_while(|component| *component == "..").count();
    let rest_climbs = target.split('/').skip(climbs).any(|component| component == "..");
    if climbs > depth || rest_climbs {
        return Err(outside());
    }
    Ok(target.to_owned())
}

fn plain_text(raw: &[u8], limit: usize) -> Result<&str, Refusal> {
    if raw.len() > limit {
        return Err(Refusal::LongPath { limit });
    }
    let text = std::str::from_utf8(raw).map_err(|_| Refusal::ControlCharacter)?;
    if text.chars().any(char::is_control) {
        return Err(Refusal::ControlCharacter);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_are_taken_and_tricks_are_not() {
        let good = [("a", "a"), ("a/b", "a/b"), ("./a", "a"), ("a/", "a"), ("./", ""), (".", ""), ("...", "...")];
        for (raw, want) in good {
            assert_eq!(member_path(raw.as_bytes(), 100).as_deref(), Ok(want), "{raw}");
        }
        let bad =
            ["", "/", "/a", "//a", "..", "../a", "a/..", "a/../b", "a//b", "a/./b", "././a", ".//", "a\0b", "a\nb"];
        for raw in bad {
            assert!(member_path(raw.as_bytes(), 100).is_err(), "{raw:?}");
        }
        assert!(member_path(b"\xff", 100).is_err());
        assert!(member_path(b"abc", 2).is_err());
        assert!(member_path("n".repeat(256).as_bytes(), 1000).is_err());
    }

    #[test]
    fn targets_climb_at_the_front_only_and_not_too_far() {
        for (link, target) in [("a", "b"), ("a/b", "../c"), ("a/b/c", "../../d/e"), ("a", "./b")] {
            assert_eq!(link_target(link, target.as_bytes(), 100).as_deref(), Ok(target));
        }
        for (link, target) in [("a", "/etc"), ("a", ".."), ("a/b", "../.."), ("a/b", "c/../d"), ("a", ""), ("a", "b\0")]
        {
            assert!(link_target(link, target.as_bytes(), 100).is_err(), "{link} -> {target}");
        }
    }
}
