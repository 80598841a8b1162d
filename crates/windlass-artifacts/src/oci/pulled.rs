//! Images that a registry gave us, kept byte for byte so that their digests stay what upstream signed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oci_spec::image::{ImageManifest, MediaType};

use super::inspect::inspect_from;
use super::json::Document;
use super::write::{Blob, Plan};
use super::{ImageSummary, OciError};
use crate::digest::Digest;

/// An image as pulled: the manifest of one platform, and a file for everything it mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The name to file it under.
    pub name: String,
    /// The manifest, unchanged.
    pub manifest: Vec<u8>,
    /// The media type that the registry gave with it.
    pub media_type: String,
    /// Where the configuration and the layers lie.
    pub blobs: BTreeMap<Digest, PathBuf>,
}

/// Writes pulled images into one archive, then inspects it: a blob that is missing or not what its digest says is
/// refused, and no archive is left.
pub fn write_pulled(images: &[Pulled], out: &Path) -> Result<Vec<ImageSummary>, OciError> {
    let mut plan = Plan::default();
    for image in images {
        add(&mut plan, image, out)?;
    }
    let checked = |file: &std::fs::File| inspect_from(file, out);
    plan.write_checked(out, checked)
}

fn add<'a>(plan: &mut Plan<'a>, image: &'a Pulled, out: &Path) -> Result<(), OciError> {
    let distrust = |reason: String| OciError::TrustArchive { file: out.to_owned(), reason };
    let manifest: ImageManifest = serde_json::from_slice(&image.manifest)
        .map_err(|error| distrust(format!("the manifest of {} cannot be read: {error}", image.name)))?;
    for wanted in std::iter::once(manifest.config()).chain(manifest.layers()) {
        let digest = Digest::parse(wanted.digest().as_ref()).map_err(|error| distrust(error.to_string()))?;
        let path = image.blobs.get(&digest).ok_or_else(|| distrust(format!("{} lacks {digest}", image.name)))?;
        plan.blobs.insert(digest, Blob::File { path, size: wanted.size() });
    }
    let document = Document::new(image.manifest.clone());
    let descriptor = document
        .descriptor(MediaType::from(image.media_type.as_str()))
        .map_err(|source| OciError::WriteArchive { file: out.to_owned(), source })?;
    plan.named.push((image.name.clone(), descriptor));
    plan.document(document);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_steps::host::{Mode, write_file};

    use super::*;
    use crate::digest::Algorithm;
    use crate::oci::inspect;

    /// A pulled image with a compressed layer, whose files are named by what they are.
    fn pulled(dir: &Path) -> Pulled {
        let config = json!({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/a"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", "0".repeat(64))]}});
        let mut blobs = BTreeMap::new();
        let mut put = |name: &str, bytes: &[u8]| {
            write_file(dir.join(name), bytes, Mode::PUBLIC).unwrap();
            let digest = Digest::of(Algorithm::Sha256, bytes);
            blobs.insert(digest.clone(), dir.join(name));
            json!({"digest": digest, "size": bytes.len()})
        };
        let (mut config, mut layer) = (put("config", config.to_string().as_bytes()), put("layer", b"compressed"));
        config["mediaType"] = json!("application/vnd.docker.container.image.v1+json");
        layer["mediaType"] = json!("application/vnd.docker.image.rootfs.diff.tar.gzip");
        let media_type = "application/vnd.docker.distribution.manifest.v2+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer]});
        let manifest = manifest.to_string().into_bytes();
        Pulled { name: "example.org/a:1".to_owned(), manifest, media_type: media_type.to_owned(), blobs }
    }

    #[test]
    fn a_pulled_image_keeps_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let (image, out) = (pulled(dir.path()), dir.path().join("a.tar"));
        let written = write_pulled(std::slice::from_ref(&image), &out).unwrap();
        assert_eq!(written[0].digest, Digest::of(Algorithm::Sha256, &image.manifest));
        assert_eq!(inspect(&out).unwrap(), written);
    }

    #[test]
    fn a_pulled_image_with_a_wrong_or_missing_blob_leaves_no_archive() {
        type Break = fn(&mut Pulled);
        let cases: [(&str, Break); 4] = [
            ("not what its digest says", |image| {
                write_file(
                    image.blobs.values().find(|path| path.ends_with("layer")).unwrap(),
                    "COMPRESSED",
                    Mode::PUBLIC,
                )
                .unwrap();
            }),
            ("missing", |image| image.blobs.clear()),
            ("manifest is not one", |image| image.manifest = b"{}".to_vec()),
            ("manifest of another kind", |image| image.media_type = "text/plain".to_owned()),
        ];
        for (case, break_it) in cases {
            let dir = tempfile::tempdir().unwrap();
            let (mut image, out) = (pulled(dir.path()), dir.path().join("a.tar"));
            break_it(&mut image);
            let error = write_pulled(&[image], &out).unwrap_err();
            assert!(error.is_trust() && !out.exists(), "{case}: {error}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "{case}: something was left");
        }
    }
}
