//! `ZLB.CREATE key DIM name [ASC | DESC] [INT | FLOAT] [DIM name ...] [TIES FIRST | LAST | NAME] [KEEP n]`
//!
//! Creates an empty board with 1 to 64 dimensions, the most significant first. By default, a dimension is DESC (more is
//! better) and INT (64 bits, exact). FLOAT dimensions hold finite doubles. Dimension names are case-sensitive and may
//! have any bytes. With KEEP, the board keeps only the best n members.
//!
//! TIES orders members with equal values. With FIRST, the default, members that reached the values earlier are better.
//! With LAST, members that reached the values later are better. With NAME, bytewise smaller names are better.
//!
//! If the key holds a board with the same schema, the command changes nothing and returns OK. So every writer may send
//! the command before it uses the board.

use crate::args::{Args, once};
use crate::boards;
use crate::boards::model::{Dimension, Direction, Kind, Schema, Ties};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};
use std::num::NonZeroU64;

/// A dimension whose options are being parsed.
struct Draft<'a> {
    name: Str<'a>,
    direction: Option<Direction>,
    kind: Option<Kind>,
}

pub(super) fn schema(args: &mut Args<'_>) -> Result<Schema, Error> {
    let mut dimensions: Vec<Draft<'_>> = Vec::new();
    let (mut ties, mut keep) = (None, None);
    // ASC, DESC, INT and FLOAT apply to the preceding DIM.
    let mut in_dimension = false;
    while let Some(keyword) = args.trailing_keyword()? {
        let dimension = dimensions.last_mut().filter(|_| in_dimension).ok_or(Error::Syntax);
        match keyword.bytes() {
            b"ASC" => once(&mut dimension?.direction, Direction::Asc)?,
            b"DESC" => once(&mut dimension?.direction, Direction::Desc)?,
            b"INT" => once(&mut dimension?.kind, Kind::Int)?,
            b"FLOAT" => once(&mut dimension?.kind, Kind::Float)?,
            b"DIM" => {
                let name = args.string().map_err(|_| Error::Syntax)?;
                dimensions.push(Draft { name, direction: None, kind: None });
                in_dimension = true;
            }
            b"TIES" => {
                let rule = args.trailing_keyword()?.ok_or(Error::Syntax)?;
                let rule = Ties::ALL.into_iter().find(|ties| ties.word().as_bytes() == rule.bytes());
                once(&mut ties, rule.ok_or(Error::Syntax)?)?;
                in_dimension = false;
            }
            b"KEEP" => {
                once(&mut keep, NonZeroU64::new(args.positive()?).ok_or(Error::NotPositive)?)?;
                in_dimension = false;
            }
            _ => return Err(Error::Syntax),
        }
    }
    let dimensions = dimensions.into_iter().map(|draft| Dimension {
        name: draft.name.bytes().into(),
        direction: draft.direction.unwrap_or_default(),
        kind: draft.kind.unwrap_or_default(),
    });
    Ok(Schema::new(dimensions.collect(), ties.unwrap_or_default(), keep)?)
}

pub const SPEC: Spec = Spec {
    name: c"ZLB.CREATE",
    summary: c"Creates an empty leaderboard with one or more dimensions.",
    complexity: c"O(D^2) with D the number of dimensions, at most 64",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Insert),
    arguments: &[
        Arg::key(c"key"),
        Arg::block(
            c"dimension",
            &[
                Arg::string(c"name").after(c"DIM"),
                Arg::one_of(c"direction", &[Arg::flag(c"asc", c"ASC"), Arg::flag(c"desc", c"DESC")]).optional(),
                Arg::one_of(c"type", &[Arg::flag(c"int", c"INT"), Arg::flag(c"float", c"FLOAT")]).optional(),
            ],
        )
        .multiple(),
        Arg::one_of(
            c"ties",
            &[Arg::flag(c"first", c"FIRST"), Arg::flag(c"last", c"LAST"), Arg::flag(c"name", c"NAME")],
        )
        .after(c"TIES")
        .optional(),
        Arg::integer(c"n").after(c"KEEP").optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let schema = schema(&mut args)?;
    if !boards::create(ctx, key, schema, &arguments[1..])? {
        return Err(Error::BoardExists);
    }
    ctx.reply_ok();
    Ok(())
}
