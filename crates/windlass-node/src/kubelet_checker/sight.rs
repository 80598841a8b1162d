//! Looking: first at the process itself, and only if it does not answer at what systemd knows about it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use windlass_steps::clock::Clock;
use windlass_steps::host::Commands;

use super::judge::{Seen, Target};
use super::{healthz, unit};
use crate::containerd;
use crate::places::Places;

/// Looks at this machine.
pub(super) struct Sight<'a, C> {
    places: &'a Places,
    commands: &'a C,
    clock: &'a dyn Clock,
    /// When the clock's monotonic time began, in the time that systemd counts.
    began: Duration,
}

impl<'a, C: Commands> Sight<'a, C> {
    pub(super) fn of(places: &'a Places, commands: &'a C, clock: &'a dyn Clock) -> Self {
        // The kernel has had this clock for ever; without it every unit has only just begun and is left alone.
        let since_boot = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        Sight::at(places, commands, clock, since_boot)
    }

    pub(super) fn at(places: &'a Places, commands: &'a C, clock: &'a dyn Clock, since_boot: Duration) -> Self {
        Sight { places, commands, clock, began: since_boot.saturating_sub(clock.monotonic()) }
    }

    pub(super) async fn look(&self, target: Target) -> Seen {
        // The gate: nothing is to run before.
        if !self.places.kubelet_env().exists() {
            return Seen::Excused("kubelet.env is not there yet".to_owned());
        }
        let asked = match target {
            Target::Containerd => containerd::ask(&self.places.containerd_socket()).await,
            Target::Kubelet => match healthz::place(self.places) {
                Some(address) => healthz::ask_it(address).await,
                None => return Seen::Excused("its healthz is switched off".to_owned()),
            },
        };
        let Err(reason) = asked else { return Seen::Answers };
        match unit::excuse(target, self.commands, self.began + self.clock.monotonic()).await {
            Some(excuse) => Seen::Excused(excuse),
            None => Seen::Silent(reason),
        }
    }
}
