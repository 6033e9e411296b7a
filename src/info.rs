//! The section `zeitset` of INFO.

use crate::boards;
use crate::config;
use crate::expiring::{sweeper, tracker};
use crate::limits::figures;
use crate::queues::claiming::jobs_claimed;
use crate::queues::{misfits, tally, waiting};
use crate::server::context::now;
use crate::server::info::{Info, Report};

/// What INFO says of the module.
pub struct Zeitset;

impl Report for Zeitset {
    fn report(info: Info<'_>) {
        let tracker::Status { sets_tracked, sets_overdue, backlog, lag, timer_armed, patrols_completed } =
            tracker::status(&info);
        let figures = sweeper::figures(&info);
        info.section(c"");
        info.text(c"version", config::VERSION);
        info.field(c"sets_tracked", sets_tracked as u64);
        info.field(c"members_expired", figures.members_expired);
        info.field(c"sets_expired", figures.sets_expired);
        info.field(c"sweep_backlog_members", backlog);
        info.field(c"sweep_backlog_sets", sets_overdue as u64);
        info.field(c"sweep_lag_ms", lag);
        info.field(c"sweep_slices", figures.slices);
        info.field(c"sweep_longest_slice_us", micros(figures.longest_slice));
        info.field(c"sweep_cpu_us", micros(figures.cpu));
        info.field(c"sweep_timer_armed", u64::from(timer_armed));
        info.field(c"patrols_completed", patrols_completed);

        let figures::Figures { allowed, denied, units } = figures::figures();
        info.field(c"checks_allowed", allowed);
        info.field(c"checks_denied", denied);
        info.field(c"units_taken", units);

        let waiting::Figures { clients, served, looks } = waiting::figures(&info);
        let all = tally::figures(now());
        let [ready, scheduled, leased, last_lease, dead] = all.jobs;
        info.field(c"queues", all.queues);
        info.field(c"jobs_ready", ready);
        info.field(c"jobs_scheduled", scheduled);
        info.field(c"jobs_leased", leased + last_lease);
        info.field(c"jobs_dead", dead);
        info.field(c"jobs_longest_wait_ms", all.longest_wait);
        info.field(c"leases_expired", all.expired_leases);
        info.field(c"jobs_claimed", jobs_claimed());
        info.field(c"clients_waiting", clients);
        info.field(c"clients_served", served);
        info.field(c"clients_looks", looks);
        info.field(c"queue_effects_misfit", misfits());

        let boards::Figures { boards, misfits } = boards::figures();
        info.field(c"boards", boards);
        info.field(c"board_effects_misfit", misfits);
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
