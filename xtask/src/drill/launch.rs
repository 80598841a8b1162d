//! What a launch survives, on real machines: killed at each of its steps, all power lost, a master cut off while etcd forms, a
//! master alone, and faults that must be told.

use std::path::Path;

use windlass_spec::KubeVersion;

use super::Chance;
use super::parts::{self, Part};
use crate::report::Failure;
use crate::session::Session;

const PARTS: [Part; 7] = [
    Part { what: "killed at each of its steps, resumed or removed", target: "drill", tests: "kills::" },
    Part { what: "all power lost, the host shut down", target: "drill", tests: "power::" },
    Part { what: "a master cut off", target: "drill", tests: "partition::" },
    Part { what: "a master alone", target: "drill", tests: "alone::" },
    Part { what: "faults that are told", target: "drill", tests: "faults::" },
    Part { what: "assets that are pushed", target: "drill", tests: "push::" },
    Part { what: "what a user adds, and what hangs", target: "drill", tests: "additions::" },
];

pub(super) fn run(session: &mut Session, chance: &Chance, artifacts: &Path) -> Result<(), Failure> {
    parts::run(session, chance, artifacts, &[KubeVersion::DEFAULT], &PARTS)
}
