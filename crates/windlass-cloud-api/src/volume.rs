//! Volumes: disks that outlive machines.

use serde::{Deserialize, Serialize};

use crate::{Label, Tags};

/// What a volume is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeSpec {
    /// Its size in bytes.
    pub size: u64,
    /// What is said of it.
    #[serde(default)]
    pub tags: Tags,
}

/// A volume as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// What it is called.
    pub name: Label,
    /// Whose it is.
    pub cluster: Label,
    /// What it is to be.
    pub spec: VolumeSpec,
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Label>,
    /// Where the holder finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Who is to have a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachRequest {
    /// The machine.
    pub machine: Label,
    /// What happens to another holder.
    #[serde(default)]
    pub hold: Hold,
}

/// What happens to a holder who has not let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// It keeps the volume; the request is refused.
    #[default]
    Respect,
    /// It is powered off, whatever it is doing, before the volume moves.
    Fence,
}
