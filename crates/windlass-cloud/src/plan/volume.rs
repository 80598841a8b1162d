//! One volume: who has it, who is to have it, and what must be true before it moves.

use windlass_cloud_api::Label;

use crate::model::VolumeRow;

/// What is there of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeFacts {
    /// Whether its file is there.
    pub made: bool,
    /// Whether the host has it open as a device.
    pub open: bool,
    /// The first process of the machine that sees it.
    pub seen_by: Option<u32>,
}

/// What is known of the machine that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderFacts {
    /// It is not there any more.
    Gone,
    /// It does not run.
    Off,
    /// It runs, and this is its first process.
    Running(u32),
    /// It runs, but its first process is not known yet.
    Booting,
}

/// The next thing to do about a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeChange {
    /// Make its file.
    Make,
    /// Show it to its holder.
    Present,
    /// Take it out of a holder that runs, and close the host's device.
    Release,
    /// Take its holder's power away.
    Fence(Label),
    /// Its holder is fenced or has let go: it is the next one's, or nobody's.
    Pass(Option<Label>),
    /// Remove its file.
    Remove,
    /// Strike it off.
    Forget,
}

impl VolumeChange {
    /// As the log has it.
    pub fn word(&self) -> &'static str {
        match self {
            VolumeChange::Make => "make",
            VolumeChange::Present => "present",
            VolumeChange::Release => "release",
            VolumeChange::Fence(_) => "fence",
            VolumeChange::Pass(_) => "pass on",
            VolumeChange::Remove => "remove",
            VolumeChange::Forget => "forget",
        }
    }
}

/// What to do about a volume next, if anything.
pub fn volume(row: &VolumeRow, facts: &VolumeFacts, holder: HolderFacts) -> Option<VolumeChange> {
    let runs = matches!(holder, HolderFacts::Running(_) | HolderFacts::Booting);
    match &row.holder {
        // Whoever has it and is gone for good has it no more.
        Some(_) if holder == HolderFacts::Gone && facts.open => Some(VolumeChange::Release),
        Some(_) if holder == HolderFacts::Gone => Some(VolumeChange::Pass(row.next_holder.clone())),
        Some(name) if row.next_holder.is_some() && runs => Some(VolumeChange::Fence(name.clone())),
        Some(_) if (row.next_holder.is_some() || row.letting_go) && facts.open => Some(VolumeChange::Release),
        Some(_) if row.next_holder.is_some() || row.letting_go => Some(VolumeChange::Pass(row.next_holder.clone())),
        Some(_) if !facts.made => Some(VolumeChange::Make),
        Some(_) => match holder {
            HolderFacts::Running(pid) if facts.seen_by != Some(pid) => Some(VolumeChange::Present),
            HolderFacts::Off if facts.open => Some(VolumeChange::Release),
            _ => None,
        },
        None if facts.open => Some(VolumeChange::Release),
        None if row.leaving && facts.made => Some(VolumeChange::Remove),
        None if row.leaving => Some(VolumeChange::Forget),
        None if !facts.made => Some(VolumeChange::Make),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::tests::{label, volume as row};

    /// A small world: the holder's power and the volume's file, as the changes move them.
    fn carried_out(
        row: &mut VolumeRow,
        facts: &mut VolumeFacts,
        holder: &mut HolderFacts,
        change: VolumeChange,
    ) -> Result<(), String> {
        match change {
            VolumeChange::Make => facts.made = true,
            VolumeChange::Present => {
                let HolderFacts::Running(pid) = *holder else { return Err("shown to nobody".into()) };
                (facts.open, facts.seen_by) = (true, Some(pid));
            }
            VolumeChange::Release => {
                if matches!(holder, HolderFacts::Running(_)) && row.holder.is_some() && !row.letting_go {
                    return Err("taken from a running machine".into());
                }
                (facts.open, facts.seen_by) = (false, None);
            }
            VolumeChange::Fence(_) => *holder = HolderFacts::Off,
            VolumeChange::Pass(next) => {
                let fenced = matches!(holder, HolderFacts::Gone | HolderFacts::Off);
                if facts.open || facts.seen_by.is_some() || !(fenced || row.letting_go) {
                    return Err("passed on while it was in use".into());
                }
                (row.holder, row.next_holder, row.letting_go) = (next, None, false);
                *holder = HolderFacts::Running(9);
            }
            VolumeChange::Remove => *facts = VolumeFacts::default(),
            VolumeChange::Forget => return Err("nothing to carry out".into()),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn it_converges_and_never_passes_what_is_in_use(
            held in any::<bool>(), wanted in any::<bool>(), given_back in any::<bool>(), leaving in any::<bool>(),
            made in any::<bool>(),
            open in any::<bool>(), seen in prop_oneof![Just(None), Just(Some(7)), Just(Some(8))],
            holder in prop_oneof![Just(HolderFacts::Gone), Just(HolderFacts::Off), Just(HolderFacts::Running(7))],
        ) {
            let mut row = row("a", "v");
            row.holder = held.then(|| label("one"));
            row.next_holder = (held && wanted).then(|| label("two"));
            row.letting_go = held && given_back;
            row.leaving = leaving && !held;
            let mut facts = VolumeFacts { made: made || open, open, seen_by: seen.filter(|_| open) };
            let mut holder = holder;
            for _ in 0..12 {
                match volume(&row, &facts, holder) {
                    None => return Ok(()),
                    Some(VolumeChange::Forget) => { prop_assert!(row.leaving); return Ok(()); }
                    Some(change) => {
                        let told = format!("{change:?} of {row:?} with {facts:?} and {holder:?}");
                        let done = carried_out(&mut row, &mut facts, &mut holder, change);
                        prop_assert!(done.is_ok(), "{done:?}: {told}");
                    }
                }
            }
            prop_assert!(false, "it goes on: {:?}", volume(&row, &facts, holder));
        }
    }

    #[test]
    fn a_running_holder_is_fenced_before_anything_else() {
        let row = VolumeRow { holder: Some(label("one")), next_holder: Some(label("two")), ..row("a", "v") };
        let facts = VolumeFacts { made: true, open: true, seen_by: Some(7) };
        assert_eq!(volume(&row, &facts, HolderFacts::Running(7)), Some(VolumeChange::Fence(label("one"))));
        assert_eq!(volume(&row, &facts, HolderFacts::Booting), Some(VolumeChange::Fence(label("one"))));
        assert_eq!(volume(&row, &facts, HolderFacts::Off), Some(VolumeChange::Release));
    }

    #[test]
    fn a_volume_that_is_given_back_is_closed_before_it_is_anybodys() {
        let row = VolumeRow { holder: Some(label("one")), letting_go: true, ..row("a", "v") };
        let open = VolumeFacts { made: true, open: true, seen_by: Some(7) };
        let closed = VolumeFacts { made: true, ..VolumeFacts::default() };
        for holder in [HolderFacts::Running(7), HolderFacts::Booting, HolderFacts::Off] {
            assert_eq!(volume(&row, &open, holder), Some(VolumeChange::Release), "{holder:?}");
            assert_eq!(volume(&row, &closed, holder), Some(VolumeChange::Pass(None)), "{holder:?}");
        }
    }
}
