//! The metadata service and the machine API: what a machine may ask at 169.254.169.254. Who asks is known by the link that
//! the listener is on, so a [`router`] belongs to one machine; what that machine may do is decided by [`may`].
//!
//! The router knows HTTP and the policy. What is true of the machine it asks a [`MachineView`].

mod answer;
mod name;
mod policy;
mod routes;
mod template;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use time::OffsetDateTime;

pub use crate::guest::update_engine::channel::{Next as OsOffer, Os as OsView, Progress as OsProgress};
pub use name::{Label, NameError, RecordName};
pub use policy::{Action, Refusal, may};
pub use routes::router;
pub use template::TemplateError;
pub use windlass_cloud_api::{Role, Token, TokenKey};

/// Who a machine is; the answer to `GET /v1/identity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The machine's name.
    pub name: String,
    /// The cluster that it belongs to.
    pub cluster: String,
    /// The zone of that cluster.
    pub domain: String,
    /// What it is for.
    pub role: Role,
    /// Its address in the cluster's network.
    pub address: IpAddr,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its number among the machines of its role or group.
    pub index: u32,
}

impl Identity {
    /// A token that says so, for one purpose, until then.
    pub fn token(&self, purpose: &Label, expires: OffsetDateTime) -> Token {
        Token {
            cluster: self.cluster.clone(),
            name: self.name.clone(),
            role: self.role,
            purpose: purpose.to_string(),
            expires: expires.unix_timestamp(),
        }
    }
}

/// A volume as a machine sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeView {
    /// Its name.
    pub name: String,
    /// The cluster that it belongs to.
    pub cluster: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The machine that has it.
    pub holder: Option<String>,
    /// Where it is inside that machine.
    pub device: Option<String>,
}

/// A tag to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Up to the first equals sign.
    pub key: String,
    /// The rest.
    pub value: String,
}

/// The kinds of records that machines change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RecordKind {
    /// IPv4 addresses.
    #[default]
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Another name.
    Cname,
    /// Services.
    Srv,
    /// Text.
    Txt,
}

/// What a record is to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRecord {
    /// Its kind.
    #[serde(default, rename = "type")]
    pub kind: RecordKind,
    /// Its values, as text.
    pub values: Vec<String>,
}

/// A record as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordView {
    /// Its name.
    pub name: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: RecordKind,
    /// Its values, as text.
    pub values: Vec<String>,
    /// Changes with every write; also the entity tag.
    pub version: u64,
}

/// When a change of a record is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// In any case.
    Always,
    /// Only if there is no such record.
    Absent,
    /// Only if the record still is at this version.
    Version(u64),
}

/// The body of `POST /v1/os/stage`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageOs {
    /// The version to stage; what the channel offers if absent.
    #[serde(default)]
    pub version: Option<String>,
}

/// How an attempt of a view failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The request cannot be meant: 400.
    Senseless,
    /// There is no such thing: 404.
    Missing,
    /// Something else is in the way: 409.
    Conflict,
    /// The condition does not hold: 412.
    Condition,
    /// Nothing is wrong, and it cannot be done yet: 503.
    Later,
    /// Something is wrong on our side: 500.
    Broken,
}

/// What a view says when it cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct ViewError {
    /// How to tell it.
    pub failing: Failing,
    /// What did not come about.
    pub error: String,
    /// Why.
    pub because: Option<String>,
    /// What to do.
    pub next: Option<String>,
}

impl ViewError {
    /// With no more than what did not come about.
    pub fn new(failing: Failing, error: impl Into<String>) -> Self {
        Self { failing, error: error.into(), because: None, next: None }
    }

    /// Keeps the cause.
    pub fn because(mut self, because: impl Into<String>) -> Self {
        self.because = Some(because.into());
        self
    }
}

/// The world as one machine may see it. Names have been parsed and the policy has been asked before any of these is called.
pub trait MachineView: Send + Sync + 'static {
    /// Who the machine is.
    fn identity(&self) -> impl Future<Output = Result<Identity, ViewError>> + Send;
    /// What it was given at its creation, as it was given.
    fn user_data(&self) -> impl Future<Output = Result<Option<String>, ViewError>> + Send;
    /// A fresh token that says who the machine is.
    fn token(&self, purpose: &Label) -> impl Future<Output = Result<String, ViewError>> + Send;
    /// The cluster's volumes that have all these tags.
    fn volumes(&self, tags: &[Tag]) -> impl Future<Output = Result<Vec<VolumeView>, ViewError>> + Send;
    /// One volume of the cluster.
    fn volume(&self, name: &Label) -> impl Future<Output = Result<Option<VolumeView>, ViewError>> + Send;
    /// Attaches the volume to this machine, away from whoever has it.
    fn attach_volume(&self, name: &Label) -> impl Future<Output = Result<VolumeView, ViewError>> + Send;
    /// Detaches the volume from this machine.
    fn detach_volume(&self, name: &Label) -> impl Future<Output = Result<VolumeView, ViewError>> + Send;
    /// One record of the cluster's zone.
    fn record(
        &self,
        name: &RecordName,
        kind: RecordKind,
    ) -> impl Future<Output = Result<Option<RecordView>, ViewError>> + Send;
    /// Writes a record if the condition holds.
    fn put_record(
        &self,
        name: &RecordName,
        record: NewRecord,
        condition: Condition,
    ) -> impl Future<Output = Result<RecordView, ViewError>> + Send;
    /// Removes a record if the condition holds.
    fn delete_record(
        &self,
        name: &RecordName,
        kind: RecordKind,
        condition: Condition,
    ) -> impl Future<Output = Result<(), ViewError>> + Send;
    /// The machine's operating system.
    fn os(&self) -> impl Future<Output = Result<OsView, ViewError>> + Send;
    /// Stages a version for the next boot.
    fn stage_os(&self, wanted: StageOs) -> impl Future<Output = Result<OsView, ViewError>> + Send;
}

#[cfg(test)]
mod tests;
