//! What INFO says about queues.

use super::claiming::claims;
use super::{rejected_effects, stored, totals, waiting};
use crate::server::context::now;
use crate::server::info::Info;

pub fn report(info: Info<'_>) {
    let waiting::WaitingStats { clients, served, checks } = waiting::stats(&info);
    stored::update_totals(&info);
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
}
