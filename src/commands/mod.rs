//! The table of all commands. A command's file says the rest: what it takes, what it does, what it replies.

mod args;
mod zexp;
mod zlb;
mod zq;
mod zrl;

use crate::server::command::Entry;

/// The families that live in plain sorted sets and strings.
pub const PLAIN: &[Entry] = &[
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
    Entry::of::<zrl::info::Info>(),
    Entry::of::<zrl::mcheck::MCheck>(),
    Entry::of::<zrl::peek::Peek>(),
    Entry::of::<zrl::refund::Refund>(),
    Entry::of::<zrl::throttle::Throttle>(),
    Entry::of::<zrl::top::Top>(),
];

/// What `cell` adds: ZRL.THROTTLE under redis-cell's name.
pub const CELL: &[Entry] = &[Entry::of::<zrl::throttle::Cell>()];

/// The families with a data type of their own.
pub const TYPED: &[Entry] = &[
    Entry::of::<zlb::around::Around>(),
    Entry::of::<zlb::card::Card>(),
    Entry::of::<zlb::clear::Clear>(),
    Entry::of::<zlb::create::Create>(),
    Entry::of::<zlb::get::Get>(),
    Entry::of::<zlb::incr::Incr>(),
    Entry::of::<zlb::info::Info>(),
    Entry::of::<zlb::merge::Merge>(),
    Entry::of::<zlb::range::Range>(),
    Entry::of::<zlb::rank::Rank>(),
    Entry::of::<zlb::rankof::RankOf>(),
    Entry::of::<zlb::rem::Rem>(),
    Entry::of::<zlb::remrange::RemRange>(),
    Entry::of::<zlb::set::Set>(),
    Entry::of::<zq::ack::Ack>(),
    Entry::of::<zq::cancel::Cancel>(),
    Entry::of::<zq::claim::Claim>(),
    Entry::of::<zq::clean::Clean>(),
    Entry::of::<zq::config::Config>(),
    Entry::of::<zq::extend::Extend>(),
    Entry::of::<zq::get::Get>(),
    Entry::of::<zq::groups::Groups>(),
    Entry::of::<zq::list::List>(),
    Entry::of::<zq::nack::Nack>(),
    Entry::of::<zq::peek::Peek>(),
    Entry::of::<zq::push::Push>(),
    Entry::of::<zq::redrive::Redrive>(),
    Entry::of::<zq::reschedule::Reschedule>(),
    Entry::of::<zq::stats::Stats>(),
];

/// What carries out the effects of those. Like RESTORE, they put any value into a key, past every check of the other commands.
pub const EFFECTS: &[Entry] = &[Entry::of::<zlb::apply::Apply>(), Entry::of::<zq::apply::Apply>()];
