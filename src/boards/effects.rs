//! The *effects* of boards: the results of commands, which replicas and the AOF get instead of the commands. An effect
//! is sent as `ZLB.APPLY key effect`, in one argument ([`packed`](crate::base::packed)) without a header.
//!
//! | code | effect | contents | what it does |
//! |---|---|---|---|
//! | 0 | `CREATE` | the schema, as in the stored form | creates an empty board |
//! | 1 | `SET` | kinds, members with values | sets the final values of members, in this order |
//! | 2 | `REM` | members | removes members |
//! | 3 | `REMRANGE` | first, count | removes `count` members, from the index `first` on |
//! | 4 | `CLEAR` | | removes all members |
//! | 5 | `REPLACE` | the stored form of a board | replaces the board and removes the TTL |
//!
//! The kinds are two numbers: the number of dimensions, and a bit mask of the FLOAT dimensions. A member and its values
//! have the same form as in the stored form. The members are the last part of an effect.
//!
//! Effects have final values and depend on no clock, condition or other key. So equal boards stay equal if they get the
//! same effects in the same order. This includes the order of ties.
//!
//! ZLB.APPLY does not have the flag `deny-oom`. A server that uses more than `maxmemory` refuses commands with this
//! flag. A replica with `replica-ignore-maxmemory no` refuses them even from its master. If ZLB.APPLY had the flag,
//! such a replica would differ from the master until the next synchronization.

use super::parse::values;
use crate::base::packed::{Packer, Unpacker, Unreadable, codes};
use crate::base::stream::DecodeError;
use crate::boards::model::codec::{read_member, read_schema, write_member, write_schema};
use crate::boards::model::{Board, Dimension, Entry, Kind, Schema, Value};
use crate::error::Error;
use crate::server::context::EventClass;
use crate::server::key::WriteKey;
use crate::server::{Context, Str};
use std::borrow::Cow;
use std::ffi::CStr;

pub const APPLY: &CStr = c"ZLB.APPLY";

codes! {
    CREATE = 0,
    SET = 1,
    REM = 2,
    REMRANGE = 3,
    CLEAR = 4,
    REPLACE = 5,
}

/// An encoded effect, and the keyspace event of the change.
#[must_use = "call `announce` to replicate the effect"]
pub struct BoardEffect {
    packed: Packer,
    event: &'static CStr,
}

impl BoardEffect {
    fn new(code: u8, event: &'static CStr, write: impl FnOnce(&mut Packer)) -> BoardEffect {
        let mut packed = Packer::default();
        packed.begin();
        packed.effect(code, write);
        BoardEffect { packed, event }
    }

    pub fn create(schema: &Schema) -> BoardEffect {
        BoardEffect::new(CREATE, c"zlb.create", |to| write_schema(schema, to))
    }

    /// Encodes an effect `SET`. Calls `write` with a function, and `write` must call this function with each changed
    /// member and its final values.
    pub fn set(
        dimensions: usize,
        floats: u64,
        event: &'static CStr,
        write: impl FnOnce(&mut dyn FnMut(Entry<'_>)),
    ) -> BoardEffect {
        BoardEffect::new(SET, event, |to| {
            to.number(dimensions as u64).number(floats);
            write(&mut |entry| write_member(entry, to));
        })
    }

    /// Encodes an effect `REM`. Calls `write` with a function, and `write` must call this function with each removed
    /// member.
    pub fn rem(write: impl FnOnce(&mut dyn FnMut(&[u8]))) -> BoardEffect {
        BoardEffect::new(REM, c"zlb.rem", |to| {
            write(&mut |member| {
                to.text(member);
            });
        })
    }

    pub fn remrange(first: u64, count: u64) -> BoardEffect {
        BoardEffect::new(REMRANGE, c"zlb.remrange", |to| {
            to.number(first).number(count);
        })
    }

    pub fn clear() -> BoardEffect {
        BoardEffect::new(CLEAR, c"zlb.clear", |_| {})
    }

    pub fn replace(board: &Board) -> BoardEffect {
        BoardEffect::new(REPLACE, c"zlb.merge", |to| board.encode(to))
    }

    /// Returns the encoded effect, which is the argument of [`APPLY`] after the key.
    pub fn bytes(&self) -> &[u8] {
        self.packed.bytes()
    }

    /// Replicates the effect, signals WATCH and client-side caching, and sends the keyspace event.
    pub fn announce(self, ctx: &mut Context, key: Str<'_>) {
        self.replicate(ctx, key);
        self.send_event(ctx, key);
    }

    /// Stores a board in a missing key, and announces the effect. Replicates the effect first, because storing the
    /// board sends the event `new` at once. If a listener then changes the board, replicas must get this effect before
    /// that change.
    pub fn announce_new(self, key: WriteKey<'_>, name: Str<'_>, board: Board) {
        self.replicate(key.ctx(), name);
        self.send_event(key.set_value(board), name);
    }

    fn replicate(&self, ctx: &Context, key: Str<'_>) {
        ctx.replicate_bytes(APPLY, key, &[self.bytes()]);
    }

    fn send_event(self, ctx: &mut Context, key: Str<'_>) {
        ctx.signal_modified(key);
        ctx.notify(EventClass::Module, self.event, key);
    }
}

/// Returns the bit mask of the dimensions that are FLOAT.
pub fn floats(dimensions: &[Dimension]) -> u64 {
    dimensions.iter().zip(0..).map(|(dimension, bit)| u64::from(dimension.kind == Kind::Float) << bit).sum()
}

/// A decoded effect.
pub enum BoardChange<'a> {
    Create(Schema),
    Set(Rows<'a>),
    Remove(Vec<&'a [u8]>),
    RemoveRange { first: u64, count: u64 },
    Clear,
    Replace(Box<Board>),
}

/// Members with their values. `values` has the values of the first member, then those of the second, and so on.
#[derive(Clone, Default)]
pub struct Members<'a> {
    pub names: Vec<&'a [u8]>,
    pub values: Vec<Value>,
}

/// The members of an effect `SET`, and their values.
pub enum Rows<'a> {
    Packed {
        dimensions: u64,
        floats: u64,
        members: Members<'a>,
    },
    /// The text form of Zeitset 0.2 and 0.3: `member value ...`, repeated. The dimensions of the board determine how
    /// many values each member has, and of which kinds.
    Words(&'a [Str<'a>]),
}

impl<'a> Rows<'a> {
    /// Returns the members of the effect. Returns `None` if the effect is for a board with other dimensions.
    pub fn members(&self, of_board: &[Dimension]) -> Result<Option<Cow<'_, Members<'a>>>, Error> {
        match self {
            Rows::Packed { dimensions, floats, members } => {
                let fits = (*dimensions, *floats) == (of_board.len() as u64, self::floats(of_board));
                Ok(fits.then_some(Cow::Borrowed(members)))
            }
            Rows::Words(words) => {
                let row = 1 + of_board.len();
                if words.is_empty() || !words.len().is_multiple_of(row) {
                    return Ok(None);
                }
                let names = words.iter().step_by(row).map(|member| member.bytes()).collect();
                Ok(Some(Cow::Owned(Members { names, values: values(words, of_board)? })))
            }
        }
    }
}

impl BoardChange<'_> {
    pub fn name(&self) -> &'static str {
        let code = match self {
            BoardChange::Create(_) => CREATE,
            BoardChange::Set(_) => SET,
            BoardChange::Remove(_) => REM,
            BoardChange::RemoveRange { .. } => REMRANGE,
            BoardChange::Clear => CLEAR,
            BoardChange::Replace(_) => REPLACE,
        };
        name(code).expect("each code has a name")
    }
}

/// Decodes the argument of [`APPLY`] after the key: exactly one effect.
pub fn decode(argument: &[u8]) -> Result<BoardChange<'_>, Unreadable> {
    let of_all = |why| Unreadable::new("effect", why);
    let from = Unpacker::begin(argument).map_err(of_all)?;
    let mut effects = from.effects(name, read)?;
    match (effects.pop(), effects.pop()) {
        (Some(effect), None) => Ok(effect),
        (None, _) => Err(of_all(DecodeError::Truncated)),
        (Some(second), Some(_)) => Err(Unreadable::new(second.name(), "it is a second effect")),
    }
}

fn read<'a>(code: u8, from: &mut Unpacker<'a>) -> Result<BoardChange<'a>, DecodeError> {
    Ok(match code {
        CREATE => BoardChange::Create(read_schema(from)?),
        SET => {
            let (dimensions, floats) = (from.number()?, from.number()?);
            BoardChange::Set(Rows::Packed { dimensions, floats, members: read_members(dimensions, floats, from)? })
        }
        REM => {
            let mut members = vec![from.text()?];
            while !from.is_empty() {
                members.push(from.text()?);
            }
            BoardChange::Remove(members)
        }
        REMRANGE => BoardChange::RemoveRange { first: from.number()?, count: from.number()? },
        CLEAR => BoardChange::Clear,
        REPLACE => BoardChange::Replace(Box::new(Board::decode(from)?)),
        _ => return Err(crate::base::packed::UNKNOWN),
    })
}

/// Reads one or more members, up to the end of the effect. Each member has a value for each dimension.
fn read_members<'a>(dimensions: u64, floats: u64, from: &mut Unpacker<'a>) -> Result<Members<'a>, DecodeError> {
    if !(1..=64).contains(&dimensions) || u128::from(floats) >> dimensions != 0 {
        return Err(DecodeError::Invalid("impossible dimensions"));
    }
    let mut members = Members::default();
    loop {
        let kinds = (0..dimensions).map(|bit| if floats >> bit & 1 == 0 { Kind::Int } else { Kind::Float });
        members.names.push(read_member(from, kinds, &mut members.values)?);
        if from.is_empty() {
            return Ok(members);
        }
    }
}
