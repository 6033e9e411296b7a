//! What INFO says about expiring sets.

use super::{sweeper, tracker};
use crate::server::info::Info;

pub fn report(info: Info<'_>) {
    let tracker::Status { sets_tracked, sets_overdue, backlog, lag, timer_armed, scans_completed } =
        tracker::status(&info);
    let stats = sweeper::stats(&info);
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
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
