//! What INFO says about queues.

use super::claiming::claims;
use super::{QueueValue, rejected_effects, stored, totals, waiting};
use crate::server::context::now;
use crate::server::data_type::DataType;
use crate::server::info::Info;
use std::sync::atomic::Ordering::Relaxed;

pub fn report(info: Info<'_>) {
    let waiting::WaitingStats { clients, served, checks } = waiting::stats(&info);
    stored::update_totals(&info);
    let [ready, delayed, claimed, claimed_last, dead] = totals::jobs();
    info.field(c"queues", QueueValue::handle().values());
    info.field(c"jobs_ready", ready);
    info.field(c"jobs_delayed", delayed);
    info.field(c"jobs_claimed", claimed + claimed_last);
    info.field(c"jobs_dead", dead);
    info.field(c"dead_letters", totals::DEAD_LETTERS.load(Relaxed));
    info.field(c"expired_jobs", totals::EXPIRED_JOBS.load(Relaxed));
    info.field(c"jobs_longest_wait_ms", totals::longest_wait(now()));
    info.field(c"expired_leases", totals::EXPIRED_LEASES.load(Relaxed));
    info.field(c"claims", claims());
    info.field(c"clients_waiting", clients);
    info.field(c"clients_served", served);
    info.field(c"clients_checks", checks);
    info.field(c"queue_effects_rejected", rejected_effects());
}
