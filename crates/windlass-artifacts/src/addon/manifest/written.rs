//! The manifest as JSON has it, text by text.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Manifest, Package, PackageVersion, Stamp};
use crate::addon::{AddonVersion, Board, Location, OsVersion, PackageName};
use crate::digest::{Algorithm, Digest};

const KIND: &str = "torcx-package-list-v0";
/// Of packages, of versions of each, of locations of each.
const COUNT_LIMIT: usize = 256;

#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    kind: String,
    value: Value,
}

#[derive(Serialize, Deserialize)]
struct Value {
    packages: Vec<WrittenPackage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    windlass: Option<WrittenStamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenPackage {
    name: String,
    // tectonic-torcx's own structure spelt it with a capital; Go reads both.
    #[serde(alias = "DefaultVersion", skip_serializing_if = "Option::is_none")]
    default_version: Option<String>,
    versions: Vec<WrittenVersion>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenVersion {
    version: String,
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cas_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_package: Option<String>,
    #[serde(default)]
    locations: Vec<WrittenLocation>,
}

#[derive(Serialize, Deserialize)]
struct WrittenLocation {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenStamp {
    version: u64,
    expires: String,
    board: String,
    os_version: String,
    lengths: BTreeMap<String, u64>,
}

impl Written {
    pub(super) fn from_manifest(manifest: &Manifest) -> Self {
        let packages = manifest.packages.iter().map(WrittenPackage::from_package).collect();
        let windlass = manifest.stamp.as_ref().map(WrittenStamp::from_stamp);
        Written { kind: KIND.to_owned(), value: Value { packages, windlass } }
    }

    pub(super) fn into_manifest(self) -> Result<Manifest, String> {
        if self.kind != KIND {
            return Err(format!("its kind is not {KIND}"));
        }
        let packages = limited(self.value.packages)?.into_iter().map(WrittenPackage::into_package);
        let packages = packages.collect::<Result<_, _>>()?;
        let stamp = self.value.windlass.map(WrittenStamp::into_stamp).transpose()?;
        Ok(Manifest { packages, stamp })
    }
}

impl WrittenPackage {
    fn from_package(package: &Package) -> Self {
        let versions = package.versions.iter().map(|version| WrittenVersion {
            version: version.version.to_string(),
            hash: version.hash.to_torcx(),
            cas_digest: version.cas_digest.clone(),
            source_package: version.source_package.clone(),
            locations: version.locations.iter().map(WrittenLocation::from_location).collect(),
        });
        WrittenPackage {
            name: package.name.to_string(),
            default_version: package.default_version.as_ref().map(ToString::to_string),
            versions: versions.collect(),
        }
    }

    fn into_package(self) -> Result<Package, String> {
        let default = self.default_version.map(|version| AddonVersion::parse(&version)).transpose();
        let versions = limited(self.versions)?.into_iter().map(WrittenVersion::into_version);
        Ok(Package {
            name: PackageName::parse(&self.name).map_err(text)?,
            default_version: default.map_err(text)?,
            versions: versions.collect::<Result<_, _>>()?,
        })
    }
}

impl WrittenVersion {
    fn into_version(self) -> Result<PackageVersion, String> {
        let locations = limited(self.locations)?.into_iter().map(WrittenLocation::into_location);
        Ok(PackageVersion {
            version: AddonVersion::parse(&self.version).map_err(text)?,
            hash: sha512(&self.hash)?,
            cas_digest: self.cas_digest,
            source_package: self.source_package,
            locations: locations.collect::<Result<_, _>>()?,
        })
    }
}

impl WrittenLocation {
    fn from_location(location: &Location) -> Self {
        match location {
            Location::Url(url) => WrittenLocation { url: Some(url.as_str().to_owned()), path: None },
            Location::Path(path) => WrittenLocation { url: None, path: Some(path.clone()) },
        }
    }

    fn into_location(self) -> Result<Location, String> {
        match (self.url, self.path) {
            (Some(url), None) => Location::parse_url(&url).map_err(text),
            (None, Some(path)) => Location::parse_path(&path).map_err(text),
            _ => Err("a location has either a URL or a path".to_owned()),
        }
    }
}

impl WrittenStamp {
    fn from_stamp(stamp: &Stamp) -> Self {
        WrittenStamp {
            version: stamp.version,
            expires: stamp.expires.format(&Rfc3339).unwrap_or_default(),
            board: stamp.board.to_string(),
            os_version: stamp.os_version.to_string(),
            lengths: stamp.lengths.iter().map(|(hash, length)| (hash.to_torcx(), *length)).collect(),
        }
    }

    fn into_stamp(self) -> Result<Stamp, String> {
        let expires = OffsetDateTime::parse(&self.expires, &Rfc3339);
        let lengths = self.lengths.into_iter().map(|(hash, length)| Ok((sha512(&hash)?, length)));
        Ok(Stamp {
            version: self.version,
            expires: expires.map_err(|_| format!("{:?} is not a time in RFC 3339", self.expires))?,
            board: Board::parse(&self.board).map_err(text)?,
            os_version: OsVersion::parse(&self.os_version).map_err(text)?,
            lengths: lengths.collect::<Result<_, String>>()?,
        })
    }
}

fn sha512(hash: &str) -> Result<Digest, String> {
    let digest = Digest::parse(hash).map_err(text)?;
    match digest.algorithm() {
        Algorithm::Sha512 if hash.starts_with("sha512-") => Ok(digest),
        _ => Err(format!("{hash} is not a SHA-512 digest as torcx writes them")),
    }
}

fn limited<T>(list: Vec<T>) -> Result<Vec<T>, String> {
    if list.len() > COUNT_LIMIT { Err(format!("it has a list of more than {COUNT_LIMIT}")) } else { Ok(list) }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
