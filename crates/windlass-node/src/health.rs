//! What is wrong with this machine that no unit of ours says: static pods that do not run, a kubelet that ends again and
//! again, disks without room, memory that did not suffice. `windlass-node health` prints it for `windlass why`.
//!
//! Nothing here needs an API: it is asked for when there is none.

mod kubelet;
mod last_words;
mod memory;
mod room;
mod static_pods;

use windlass_steps::host::Commands;

use crate::places::Places;
use crate::record::Unmet;

/// Looks at everything; a healthy machine has nothing to say.
pub async fn look(places: &Places, commands: &impl Commands) -> Vec<Unmet> {
    let mut found = room::look(places);
    found.extend(memory::look(places));
    found.extend(kubelet::look(places, commands).await);
    found.extend(static_pods::look(places, commands).await);
    found
}

fn unmet(statement: impl Into<String>, reason: impl Into<String>) -> Unmet {
    Unmet { statement: statement.into(), reason: reason.into() }
}
