//! ZLB: leaderboards of several dimensions. What the commands share: how values are read and replied.
//!
//! In replies an INT value is an integer; a FLOAT value is a double in RESP3, and in RESP2 a bulk string of the fewest
//! digits that read back as the same double, as ZSCORE does it. Where a reply is missing as a whole, it is a null of the
//! kind the reply would have been.

pub mod around;
pub mod card;
pub mod create;
pub mod get;
pub mod incr;
pub mod info;
pub mod range;
pub mod rank;
pub mod rankof;
pub mod rem;
pub mod set;

use super::args::Args;
use crate::error::Error;
use crate::model::board::{Dimension, Kind, Range, Value};
use crate::server::Context;
use crate::server::command::Arg;

/// `key member [member ...]`
const KEY_AND_MEMBERS: &[Arg] = &[Arg::key(c"key"), Arg::string(c"member").multiple()];

/// `[WITHVALUES]`
const WITH_VALUES: Arg = Arg::flag(c"withvalues", c"WITHVALUES").optional();

/// Reads a value of the dimension's kind.
fn value(args: &mut Args<'_>, dimension: &Dimension) -> Result<Value, Error> {
    match dimension.kind {
        Kind::Int => args.integer().map(Value::Int),
        Kind::Float => args.float().map(Value::Float),
    }
}

/// How values are replied to this client.
#[derive(Clone, Copy)]
struct Values<'a> {
    ctx: Context<'a>,
    as_doubles: bool,
}

impl<'a> Values<'a> {
    fn to(ctx: Context<'a>, dimensions: &[Dimension]) -> Values<'a> {
        let has_floats = dimensions.iter().any(|dimension| dimension.kind == Kind::Float);
        Values { ctx, as_doubles: has_floats && ctx.is_resp3() }
    }

    fn reply(self, value: Value) {
        match value {
            Value::Int(number) => self.ctx.reply_integer(number),
            Value::Float(number) if self.as_doubles => self.ctx.reply_double(number),
            Value::Float(_) => self.ctx.reply_bytes(value.to_string().as_bytes()),
        }
    }

    fn reply_all(self, values: impl Iterator<Item = Value>) {
        values.for_each(|value| self.reply(value));
    }
}

/// Members in order; with their values each as an array `[member, value ...]`.
fn reply_members(ctx: Context<'_>, members: Range<'_>, dimensions: &[Dimension], with_values: bool) {
    ctx.reply_array(members.len());
    if !with_values {
        members.for_each(|entry| ctx.reply_bytes(entry.member));
        return;
    }
    let values = Values::to(ctx, dimensions);
    members.for_each(|entry| {
        ctx.reply_array(1 + dimensions.len());
        ctx.reply_bytes(entry.member);
        values.reply_all(entry.values.iter());
    });
}
