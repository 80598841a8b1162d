//! What the node flow survives, on real machines: buckets that are not to be trusted, no API, no update, a full disk, and power
//! cuts at every stage of it; then the flow on clusters: an update that rolls through one, a boot into an update that nobody
//! prepared, a worker that comes later, and another version of Kubernetes with the runtime that goes with it.

use std::path::Path;

use windlass_spec::KubeVersion;

use super::Chance;
use super::parts::{self, Part};
use crate::report::Failure;
use crate::session::Session;

const PARTS: [Part; 10] = [
    Part { what: "buckets that are not as they should be", target: "node_drill", tests: "buckets::" },
    Part { what: "no API", target: "node_drill", tests: "api::" },
    Part { what: "no update", target: "node_drill", tests: "engine::" },
    Part { what: "a full disk", target: "node_drill", tests: "disk::" },
    Part { what: "power cuts", target: "node_drill", tests: "cuts::" },
    Part { what: "an installer's word of another version", target: "node_drill", tests: "versions::" },
    Part { what: "the operating system of a running cluster updated", target: "drill", tests: "rolling::" },
    Part { what: "a boot into a system that nobody prepared", target: "drill", tests: "unplanned::" },
    Part { what: "a worker that comes later", target: "drill", tests: "worker::" },
    Part { what: "another version of Kubernetes", target: "drill", tests: "versions::" },
];

pub(super) fn run(session: &mut Session, chance: &Chance, artifacts: &Path) -> Result<(), Failure> {
    parts::run(session, chance, artifacts, &KubeVersion::ALL, &PARTS)
}
