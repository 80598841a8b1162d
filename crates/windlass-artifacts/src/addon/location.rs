//! Where manifests and packages lie. A manifest names URLs that a machine will ask, with whatever the machine's
//! network can reach: so it may only name places on its own server, unless someone said otherwise.

use std::fmt;

use url::Url;

use super::{AddonError, Board, OsVersion};

const LENGTH: usize = 2048;

/// Where a package's archive is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On a server.
    Url(LocationUrl),
    /// On the machine itself: an absolute path.
    Path(String),
}

impl Location {
    /// Takes a URL, absolute or relative to the manifest's, that climbs nowhere.
    pub fn parse_url(text: &str) -> Result<Self, AddonError> {
        check_text(text).map_err(|what| refused(text, what))?;
        Ok(Location::Url(LocationUrl(text.to_owned())))
    }

    /// Takes an absolute path that climbs nowhere.
    pub fn parse_path(text: &str) -> Result<Self, AddonError> {
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        let components = text.strip_prefix('/').ok_or_else(|| refused(text, "an absolute path is wanted"))?;
        if text.len() > LENGTH || text.contains(char::is_control) || !components.split('/').all(plain) {
            return Err(refused(text, "a plain path is wanted"));
        }
        Ok(Location::Path(text.to_owned()))
    }
}

/// A URL as a manifest has it, absolute or relative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocationUrl(String);

/// Which servers packages may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// The manifest's own, by scheme, host and port.
    SameAsManifest,
    /// These as well.
    AlsoFrom(Vec<Url>),
}

impl LocationUrl {
    /// The text as the manifest has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL to ask, seen from the manifest's own.
    pub fn resolve(&self, manifest: &Url, origins: &Origins) -> Result<Url, AddonError> {
        let refuse = |what| refused(&self.0, what);
        let url = manifest.join(&self.0).map_err(|_| refuse("it is not a URL"))?;
        check_url(&url).map_err(refuse)?;
        let allowed = match origins {
            Origins::SameAsManifest => url.origin() == manifest.origin(),
            Origins::AlsoFrom(more) => {
                url.origin() == manifest.origin() || more.iter().any(|other| other.origin() == url.origin())
            }
        };
        // A manifest that came safely must not lead to a download that anyone on the way can read and delay.
        let downgraded = manifest.scheme() == "https" && url.scheme() != "https";
        match (allowed, downgraded) {
            (true, false) => Ok(url),
            (true, true) => Err(refuse("it leads from https to http")),
            (false, _) => Err(refuse("it is on another server than the manifest")),
        }
    }
}

/// A template for a manifest's URL: `https://bucket/{{.Board}}/{{.OSVersion}}/torcx_manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestUrl(String);

impl ManifestUrl {
    /// Takes a template with any of the two variables, which may stand in the path only.
    pub fn parse(template: &str) -> Result<Self, AddonError> {
        let wrong = |what| AddonError::ExpandTemplate { template: template.chars().take(200).collect(), what };
        let expanded = expand(template, "board", "1").map_err(wrong)?;
        let url = Url::parse(&expanded).map_err(|_| wrong("it is not a URL"))?;
        check_url(&url).map_err(wrong)?;
        check_text(&expanded).map_err(wrong)?;
        let other = expand(template, "elsewhere", "2").map_err(wrong)?;
        match Url::parse(&other) {
            Ok(other) if other.origin() == url.origin() => Ok(ManifestUrl(template.to_owned())),
            _ => Err(wrong("a variable stands in front of the path")),
        }
    }

    /// The URL for one board and OS version.
    pub fn expand(&self, board: &Board, os_version: &OsVersion) -> Result<Url, AddonError> {
        let wrong = |what| AddonError::ExpandTemplate { template: self.0.clone(), what };
        let expanded = expand(&self.0, board.as_str(), os_version.as_str()).map_err(wrong)?;
        Url::parse(&expanded).map_err(|_| wrong("it is not a URL"))
    }
}

impl fmt::Display for ManifestUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn expand(template: &str, board: &str, os_version: &str) -> Result<String, &'static str> {
    if template.len() > LENGTH {
        return Err("it is too long");
    }
    let mut expanded = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (variable, after) = after.split_once("}}").ok_or("a variable has no end")?;
        expanded.push_str(before);
        expanded.push_str(match variable.trim() {
            ".Board" => board,
            ".OSVersion" => os_version,
            _ => return Err("the variables are {{.Board}} and {{.OSVersion}}"),
        });
        rest = after;
    }
    expanded.push_str(rest);
    if expanded.contains(['{', '}']) { Err("there is a stray brace in it") } else { Ok(expanded) }
}

/// Rules for the text, before a URL parser tidies away what we want to see.
fn check_text(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > LENGTH {
        return Err("it is empty or too long");
    }
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("it has spaces, control characters or backslashes");
    }
    let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let has_scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
    if has_scheme && !path.starts_with("http://") && !path.starts_with("https://") {
        return Err("http or https is wanted");
    }
    if ["%2f", "%5c", "%00"].iter().any(|hidden| path.contains(hidden)) {
        return Err("it has a hidden separator");
    }
    let dots = path.replace("%2e", ".");
    match dots.split('/').any(|component| component == "." || component == "..") {
        true => Err("it climbs"),
        false => Ok(()),
    }
}

fn check_url(url: &Url) -> Result<(), &'static str> {
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("http or https is wanted");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user name");
    }
    if url.fragment().is_some() { Err("it has a fragment") } else { Ok(()) }
}

fn refused(location: &str, what: &'static str) -> AddonError {
    AddonError::ResolveLocation { location: location.chars().take(200).collect(), what }
}
