//! The tables of all commands. Each command is documented in its own file.

mod args;
mod zexp;
mod zlb;
mod zq;
mod zrl;

use crate::server::command::{Arg, Command, commands};

const KEY_AND_MEMBERS: &[Arg] = &[Arg::key(c"key"), Arg::string(c"member").multiple()];

const CONDITION: Arg = Arg::one_of(c"condition", &[Arg::flag(c"nx", c"NX"), Arg::flag(c"xx", c"XX")]).optional();

/// The commands for sorted sets with expiring members.
pub const SETS: &[Command] = commands![
    zexp::add,
    zexp::adopt,
    zexp::card,
    zexp::expire,
    zexp::ismember,
    zexp::members,
    zexp::mismember,
    zexp::persist,
    zexp::pop,
    zexp::pttl,
    zexp::randmember,
    zexp::rem,
    zexp::ttl,
];

/// The commands for rate limits. A rate limit is a plain string.
pub const LIMITS: &[Command] =
    commands![zrl::check, zrl::info, zrl::mcheck, zrl::peek, zrl::refund, zrl::throttle, zrl::top,];

/// The command that the module argument `cell` adds: ZRL.THROTTLE under redis-cell's name.
pub const CELL: &[Command] = commands![zrl::cell];

/// The commands for the module's own data types.
pub const TYPED: &[Command] = commands![
    zlb::around,
    zlb::card,
    zlb::clear,
    zlb::create,
    zlb::get,
    zlb::incr,
    zlb::info,
    zlb::merge,
    zlb::range,
    zlb::rank,
    zlb::rankof,
    zlb::rem,
    zlb::remrange,
    zlb::set,
    zq::ack,
    zq::cancel,
    zq::claim,
    zq::clean,
    zq::config,
    zq::extend,
    zq::get,
    zq::groups,
    zq::hold,
    zq::list,
    zq::nack,
    zq::peek,
    zq::push,
    zq::redrive,
    zq::reschedule,
    zq::stats,
];

/// The commands that replicas and AOF files get instead of the commands that clients sent. Like RESTORE, these commands
/// can store any value in a key.
pub const EFFECTS: &[Command] = commands![zlb::apply, zq::apply];
