//! Who gets which config. The decision is pure; what it needs to know of burnt tokens and Nodes is asked before.

use std::collections::BTreeMap;

use thiserror::Error;
use windlass_cloud_api::{Role, Token, TokenError};
use windlass_spec::complete::{CompleteSpec, Machine, machines};
use windlass_spec::file;

use crate::machine_token::Unproven;

/// Why a request is not answered with a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Denial {
    /// There is no token, or what is there is none.
    #[error("a machine's token is needed")]
    Unauthorized,
    /// The token is not of this cluster's platform.
    #[error("the token is not valid here")]
    Foreign,
    /// The token is for something else.
    #[error("the token is for another purpose")]
    OtherPurpose,
    /// The token's time is over.
    #[error("the token has expired")]
    Expired,
    /// The spec calls for no such machine, or for another role of it.
    #[error("the machine is not expected")]
    UnknownMachine,
    /// The config is that of another role or group.
    #[error("the config is not for this machine")]
    OtherConfig,
    /// The machine has acknowledged its config before.
    #[error("the token was used up")]
    Burnt,
    /// The machine is a working node.
    #[error("the machine's node is ready")]
    NodeReady,
    /// There is no such config.
    #[error("there is no such config")]
    NotFound,
    /// The client cannot read the version that is served.
    #[error("only version 3.3.0 is served")]
    NotAcceptable,
    /// Too many ask.
    #[error("too many requests, ask again")]
    TooMany,
    /// Whether the machine may have it cannot be told now.
    #[error("not now, ask again")]
    Later,
}

impl Denial {
    /// The status to answer with. What may pass is 503: Ignition gives up for good on anything below 500.
    pub fn code(self) -> u16 {
        match self {
            Denial::Unauthorized => 401,
            Denial::Foreign
            | Denial::OtherPurpose
            | Denial::Expired
            | Denial::UnknownMachine
            | Denial::OtherConfig
            | Denial::Burnt
            | Denial::NodeReady => 403,
            Denial::NotFound => 404,
            Denial::NotAcceptable => 406,
            Denial::TooMany | Denial::Later => 503,
        }
    }
}

impl From<Unproven> for Denial {
    fn from(unproven: Unproven) -> Self {
        match unproven {
            Unproven::Missing => Denial::Unauthorized,
            Unproven::OtherCluster => Denial::Foreign,
            Unproven::Refused(error) => match error {
                TokenError::Form | TokenError::Content | TokenError::PublicKey => Denial::Unauthorized,
                TokenError::Signature => Denial::Foreign,
                TokenError::Purpose => Denial::OtherPurpose,
                TokenError::Expired => Denial::Expired,
            },
        }
    }
}

/// The machines that a spec calls for, by name.
#[derive(Debug, Clone)]
pub struct Expected(BTreeMap<String, Machine>);

impl Expected {
    /// Those of a complete spec.
    pub fn of(spec: &CompleteSpec) -> Self {
        Expected(machines(spec).into_iter().map(|machine| (machine.name.to_string(), machine)).collect())
    }

    /// The machine that a token is about, if it is expected in that role.
    pub fn machine(&self, token: &Token) -> Result<&Machine, Denial> {
        let machine = self.0.get(&token.name).filter(|machine| role(machine) == token.role);
        machine.ok_or(Denial::UnknownMachine)
    }

    /// The machine that a token is about, if the config of this role and group is its own.
    pub fn entitled(&self, token: &Token, asked: Role, group: Option<&str>) -> Result<&Machine, Denial> {
        let machine = self.machine(token)?;
        let own = role(machine) == asked && group.is_none_or(|group| machine.group.as_str() == group);
        if own { Ok(machine) } else { Err(Denial::OtherConfig) }
    }
}

fn role(machine: &Machine) -> Role {
    match machine.role {
        file::Role::Master => Role::Master,
        file::Role::Worker => Role::Worker,
    }
}
