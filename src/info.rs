//! The section `zeitset` of INFO.

use crate::boards;
use crate::config;
use crate::expiring::{sweeper, tracker};
use crate::limits::stats;
use crate::queues::claiming::claims;
use crate::queues::{rejected_effects, totals, waiting};
use crate::server::context::now;
use crate::server::info::Info;
use std::sync::atomic::Ordering;

pub fn report(info: Info<'_>) {
    let tracker::Status { sets_tracked, sets_overdue, backlog, lag, timer_armed, scans_completed } =
        tracker::status(&info);
    let stats = sweeper::stats(&info);
    info.section(c"");
    info.text(c"version", config::VERSION);
    info.field(c"sets_tracked", sets_tracked as u64);
    info.field(c"members_expired", stats.members_expired);
    info.field(c"sets_expired", stats.sets_expired);
    info.field(c"sweep_backlog_members", backlog);
    info.field(c"sweep_backlog_sets", sets_overdue as u64);
    info.field(c"sweep_lag_ms", lag);
    info.field(c"sweep_slices", stats.slices);
    info.field(c"sweep_longest_slice_us", micros(stats.longest_slice));
    info.field(c"sweep_cpu_us", micros(stats.cpu));
    info.field(c"sweep_timer_armed", u64::from(timer_armed));
    info.field(c"scans_completed", scans_completed);

    info.field(c"checks_allowed", stats::ALLOWED.load(Ordering::Relaxed));
    info.field(c"checks_forced", stats::FORCED.load(Ordering::Relaxed));
    info.field(c"checks_denied", stats::DENIED.load(Ordering::Relaxed));
    info.field(c"units_taken", stats::UNITS.load(Ordering::Relaxed));

    let waiting::WaitingStats { clients, served, checks } = waiting::stats(&info);
    let all = totals::totals(now());
    let [ready, delayed, claimed, last_claimed, dead] = all.jobs;
    info.field(c"queues", all.queues);
    info.field(c"jobs_ready", ready);
    info.field(c"jobs_delayed", delayed);
    info.field(c"jobs_claimed", claimed + last_claimed);
    info.field(c"jobs_dead", dead);
    info.field(c"dead_letters", totals::dead_letters());
    info.field(c"expired_jobs", totals::expired_jobs());
    info.field(c"jobs_longest_wait_ms", all.longest_wait);
    info.field(c"expired_leases", all.expired_leases);
    info.field(c"claims", claims());
    info.field(c"clients_waiting", clients);
    info.field(c"clients_served", served);
    info.field(c"clients_checks", checks);
    info.field(c"queue_effects_rejected", rejected_effects());

    let boards::BoardStats { boards, rejected_effects } = boards::stats();
    info.field(c"boards", boards);
    info.field(c"board_effects_rejected", rejected_effects);
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
