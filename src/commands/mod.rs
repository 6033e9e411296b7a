//! The table of all commands. A command's file says the rest: what it takes, what it does, what it replies.

mod args;
mod zexp;
mod zrl;

use crate::server::command::Entry;

pub const TABLE: &[Entry] = &[
    Entry::of::<zexp::add::Add>(),
    Entry::of::<zexp::adopt::Adopt>(),
    Entry::of::<zexp::card::Card>(),
    Entry::of::<zexp::expire::Expire>(),
    Entry::of::<zexp::ismember::IsMember>(),
    Entry::of::<zexp::ismember::MIsMember>(),
    Entry::of::<zexp::members::Members>(),
    Entry::of::<zexp::persist::Persist>(),
    Entry::of::<zexp::pop::Pop>(),
    Entry::of::<zexp::randmember::RandMember>(),
    Entry::of::<zexp::rem::Rem>(),
    Entry::of::<zexp::ttl::Pttl>(),
    Entry::of::<zexp::ttl::Ttl>(),
    Entry::of::<zrl::check::Check>(),
    Entry::of::<zrl::mcheck::MCheck>(),
    Entry::of::<zrl::peek::Peek>(),
    Entry::of::<zrl::refund::Refund>(),
    Entry::of::<zrl::throttle::Throttle>(),
];
