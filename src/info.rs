//! The section `zeitset` of INFO.

use crate::expiring::{limit, sweeper};
use crate::queues::{claimed, waiting};
use crate::server::info::{Info, Report};

/// What INFO says of the module.
pub struct Zeitset;

impl Report for Zeitset {
    fn report(info: Info<'_>) {
        let sweeper::Status { figures, sets_tracked, sets_overdue, backlog, lag, timer_armed, patrols_completed } =
            sweeper::status(info);
        info.section(c"");
        info.field(c"sets_tracked", sets_tracked as u64);
        info.field(c"members_expired", figures.members_expired);
        info.field(c"sets_expired", figures.sets_expired);
        info.field(c"sweep_backlog_members", backlog);
        info.field(c"sweep_backlog_sets", sets_overdue as u64);
        info.field(c"sweep_lag_ms", lag);
        info.field(c"sweep_slices", figures.slices);
        info.field(c"sweep_longest_slice_us", micros(figures.longest_slice));
        info.field(c"sweep_cpu_us", micros(figures.busy));
        info.field(c"sweep_timer_armed", u64::from(timer_armed));
        info.field(c"patrols_completed", patrols_completed);

        let limit::Figures { allowed, denied, units } = limit::figures();
        info.field(c"checks_allowed", allowed);
        info.field(c"checks_denied", denied);
        info.field(c"units_taken", units);

        let waiting::Figures { clients, served } = waiting::figures(info);
        info.field(c"jobs_claimed", claimed());
        info.field(c"clients_waiting", clients);
        info.field(c"clients_served", served);
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
