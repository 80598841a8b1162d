//! The local cloud's requests, answers and client: what `windlass-cloud` is asked over its socket, and by whom.
//!
//! Everything is a named thing of a cluster: [`MachineSpec`] is what is wanted, [`Machine`] what is there, and so for
//! volumes, balancers, groups, records and objects. [`Client`] asks. Nothing here knows what the machines are for.

mod balancer;
mod client;
mod cluster;
mod daemon;
mod error;
mod fault;
mod group;
mod image;
mod label;
mod machine;
mod object;
mod receipt;
mod record;
mod role;
mod status;
mod token;
mod volume;

pub use balancer::{Balancer, BalancerSpec, Check, Forward, ForwardSpec, Target, TargetState};
pub use client::{Client, ClientError};
pub use cluster::{Channel, Cluster, ClusterSpec, Egress};
pub use daemon::{Daemon, Found, StartError, World};
pub use error::Refusal;
pub use fault::Fault;
pub use group::{Group, GroupSpec};
pub use image::{Image, ImageSpec, Seed};
pub use label::{Label, LabelError, ObjectKey, RecordName, Tag, Tags};
pub use machine::{Console, ExecAnswer, ExecRequest, Machine, MachineSpec, MachineState, Power};
pub use object::{NewObject, ObjectContent, ObjectInfo, ObjectUrl, ProofOfDeletion, UrlRequest};
pub use receipt::{Receipt, Residue, Thing};
pub use record::{Condition, Record, RecordChange, RecordKind};
pub use role::Role;
pub use status::{Event, Status};
pub use token::{Token, TokenError, TokenKey, TokenPublicKey};
pub use volume::{AttachRequest, Hold, Volume, VolumeSpec};
