//! The `Accept` header as Ignition sends it: `application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1`. Ignition
//! gives up for good on an answer below 500, so only a client that says that it cannot read our version is refused.

/// The type of what is served.
pub const CONTENT_TYPE: &str = "application/vnd.coreos.ignition+json; version=3.3.0";

const IGNITION: &str = "application/vnd.coreos.ignition+json";
const SERVED: (u32, u32) = (3, 3);

/// Whether a client that sends this header can read what is served. Without the header it takes anything.
pub fn can_read(header: Option<&str>) -> bool {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else { return true };
    let ranges: Vec<Range> = header.split(',').filter_map(Range::parse).collect();
    let mut configs = ranges.iter().filter(|range| range.kind == IGNITION).peekable();
    // A client that names versions means them; the "anything else" beside them is for what is no config.
    if configs.peek().is_some() {
        return configs.any(|range| range.wanted && range.version.is_none_or(reads));
    }
    let any = |range: &Range| matches!(range.kind.as_str(), "*/*" | "application/*" | "application/json");
    ranges.iter().any(|range| range.wanted && any(range))
}

/// Later minor versions read earlier ones.
fn reads((major, minor): (u32, u32)) -> bool {
    major == SERVED.0 && minor >= SERVED.1
}

struct Range {
    kind: String,
    version: Option<(u32, u32)>,
    wanted: bool,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().filter(|kind| !kind.is_empty())?.to_ascii_lowercase();
        let mut range = Range { kind, version: None, wanted: true };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match key.trim().to_ascii_lowercase().as_str() {
                "version" => range.version = Some(version(value)),
                "q" => range.wanted = value.parse::<f32>().is_ok_and(|quality| quality > 0.0),
                _ => {}
            }
        }
        Some(range)
    }
}

/// Major and minor; what is no version is one that nobody serves.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        (Some(_) | None, _) => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_cannot_read_our_version_is_known_by_its_header() {
        let cases = [
            (None, true),
            (Some(""), true),
            (Some("*/*"), true),
            (Some("application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1"), true),
            (Some("application/vnd.coreos.ignition+json;version=3.3.0, */*;q=0.1"), true),
            (Some("application/vnd.coreos.ignition+json; version=\"3.4.0\""), true),
            (Some("application/vnd.coreos.ignition+json"), true),
            (Some("Application/vnd.coreos.Ignition+JSON;Version=3.3.0"), true),
            (Some("application/json"), true),
            (Some("application/*;q=0.5"), true),
            (
                Some(
                    "application/vnd.coreos.ignition+json;version=2.2.0, application/vnd.coreos.ignition+json;version=3.4.0",
                ),
                true,
            ),
            (Some("application/vnd.coreos.ignition+json;version=3.2.0, */*;q=0.1"), false),
            (Some("application/vnd.coreos.ignition+json;version=2.4.0, */*;q=0.1"), false),
            (Some("application/vnd.coreos.ignition+json;version=4.0.0, */*;q=0.1"), false),
            (Some("application/vnd.coreos.ignition+json;version=new"), false),
            (Some("application/vnd.coreos.ignition+json;q=0"), false),
            (Some("text/html"), false),
            (Some("*/*;q=0"), false),
            (Some(";;,,"), false),
        ];
        for (header, want) in cases {
            assert_eq!(can_read(header), want, "{header:?}");
        }
    }
}
