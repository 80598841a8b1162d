//! What a machine may do, by who it is: one pure function, asked before anything is done.

use thiserror::Error;

use super::{Identity, Label, RecordName, Role};

/// Something that a machine wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// To know who it is and what it was given.
    ReadSelf,
    /// A token in its own name.
    TakeToken {
        /// What for.
        purpose: &'a Label,
    },
    /// To know of a volume.
    SeeVolume {
        /// Whose it is.
        cluster: &'a str,
    },
    /// To have a volume.
    AttachVolume {
        /// Whose it is.
        cluster: &'a str,
    },
    /// To give a volume back.
    DetachVolume {
        /// Whose it is.
        cluster: &'a str,
        /// The machine that has it.
        holder: Option<&'a str>,
    },
    /// To read a record with its version.
    SeeRecord {
        /// Which one.
        name: &'a RecordName,
    },
    /// To write or remove a record.
    ChangeRecord {
        /// Which one.
        name: &'a RecordName,
    },
    /// To know its operating system.
    ReadOs,
    /// To have another operating system at its next boot.
    StageOs,
}

/// Why a machine may not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Machines of this role do not do that.
    #[error("a {role} may not {deed}")]
    Role {
        /// The machine's.
        role: Role,
        /// What it wanted.
        deed: &'static str,
    },
    /// The thing belongs to another cluster.
    #[error("it belongs to another cluster")]
    OtherCluster,
    /// The volume is somewhere else.
    #[error("the volume is not attached to this machine")]
    NotHolder,
}

/// Whether this machine may do this.
pub fn may(who: &Identity, action: &Action<'_>) -> Result<(), Refusal> {
    let own = |cluster: &str| if cluster == who.cluster { Ok(()) } else { Err(Refusal::OtherCluster) };
    let in_zone = |name: &RecordName| if name.is_in(&who.domain) { Ok(()) } else { Err(Refusal::OtherCluster) };
    match action {
        Action::ReadSelf | Action::TakeToken { .. } | Action::ReadOs | Action::StageOs => Ok(()),
        Action::SeeVolume { cluster } => own(cluster),
        Action::AttachVolume { cluster } => own(cluster).and_then(|()| volumes(who.role)),
        Action::DetachVolume { cluster, holder } => {
            own(cluster)?;
            volumes(who.role)?;
            if *holder == Some(who.name.as_str()) { Ok(()) } else { Err(Refusal::NotHolder) }
        }
        Action::SeeRecord { name } => in_zone(name),
        Action::ChangeRecord { name } => in_zone(name).and_then(|()| records(who.role)),
    }
}

fn volumes(role: Role) -> Result<(), Refusal> {
    match role {
        Role::Master => Ok(()),
        Role::Bootstrap | Role::Worker => Err(Refusal::Role { role, deed: "attach or detach volumes" }),
    }
}

fn records(role: Role) -> Result<(), Refusal> {
    match role {
        Role::Bootstrap | Role::Master => Ok(()),
        Role::Worker => Err(Refusal::Role { role, deed: "change records" }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_machine_may_do_what_its_role_needs_in_its_own_cluster() {
        let purpose = Label::parse("join").unwrap();
        let (ours, theirs) = (RecordName::parse("api.one.test").unwrap(), RecordName::parse("api.two.test").unwrap());
        let detach = |cluster, holder| Action::DetachVolume { cluster, holder };
        // Bootstrap, master, worker.
        let cases = [
            (Action::ReadSelf, [true, true, true]),
            (Action::TakeToken { purpose: &purpose }, [true, true, true]),
            (Action::ReadOs, [true, true, true]),
            (Action::StageOs, [true, true, true]),
            (Action::SeeVolume { cluster: "one" }, [true, true, true]),
            (Action::SeeVolume { cluster: "two" }, [false, false, false]),
            (Action::AttachVolume { cluster: "one" }, [false, true, false]),
            (Action::AttachVolume { cluster: "two" }, [false, false, false]),
            (detach("one", Some("m0")), [false, true, false]),
            (detach("one", Some("m1")), [false, false, false]),
            (detach("one", None), [false, false, false]),
            (detach("two", Some("m0")), [false, false, false]),
            (Action::SeeRecord { name: &ours }, [true, true, true]),
            (Action::SeeRecord { name: &theirs }, [false, false, false]),
            (Action::ChangeRecord { name: &ours }, [true, true, false]),
            (Action::ChangeRecord { name: &theirs }, [false, false, false]),
        ];
        for (action, wants) in cases {
            for (role, want) in [Role::Bootstrap, Role::Master, Role::Worker].into_iter().zip(wants) {
                let who = Identity {
                    name: "m0".into(),
                    cluster: "one".into(),
                    domain: "one.test".into(),
                    role,
                    address: [10, 0, 0, 2].into(),
                    tags: BTreeMap::new(),
                    index: 0,
                };
                assert_eq!(may(&who, &action).is_ok(), want, "{role}: {action:?}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_is_refused_to_whom() {
        let refusal = volumes(Role::Worker).unwrap_err();
        assert_eq!(refusal.to_string(), "a worker may not attach or detach volumes");
    }
}
