//! `ZLB.CREATE key DIM name [ASC | DESC] [INT | FLOAT] [DIM name ...] [TIES FIRST | LAST | NAME] [KEEP n]`
//!
//! Makes an empty board. Its dimensions, 1 to 64, are compared in the order in which they are given: gold, then silver,
//! then bronze. A dimension is DESC (more is better) and INT (64 bits, exact) unless it says otherwise; FLOAT ones hold
//! finite doubles. TIES breaks ties: the first to reach the values is better (the default), or the last, or the bytewise
//! smaller name. With KEEP only the best n stay on the board; the others are forgotten.
//!
//! If the key holds a board of the very same schema, nothing changes, and the reply is the same: whoever writes first can
//! create the board.
//!
//! Dimensions' names are bytes, and case-sensitive.

use crate::boards;
use crate::commands::args::{Args, once};
use crate::error::Error;
use crate::model::board::{Dimension, Direction, Kind, Schema, Ties};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};
use std::num::NonZeroU64;

pub struct Create;

/// A dimension as far as it has been read.
struct Draft<'a> {
    name: Str<'a>,
    direction: Option<Direction>,
    kind: Option<Kind>,
}

impl Draft<'_> {
    fn finish(self) -> Dimension {
        Dimension {
            name: self.name.bytes().into(),
            direction: self.direction.unwrap_or_default(),
            kind: self.kind.unwrap_or_default(),
        }
    }
}

pub(super) fn schema(args: &mut Args<'_>) -> Result<Schema, Error> {
    let mut dimensions: Vec<Draft<'_>> = Vec::new();
    let (mut ties, mut keep) = (None, None);
    // ASC, DESC, INT and FLOAT belong to the DIM they follow.
    let mut in_dimension = false;
    while let Some(keyword) = args.trailing_keyword()? {
        let dimension = dimensions.last_mut().filter(|_| in_dimension).ok_or(Error::Syntax);
        match keyword.as_str() {
            "ASC" => once(&mut dimension?.direction, Direction::Asc)?,
            "DESC" => once(&mut dimension?.direction, Direction::Desc)?,
            "INT" => once(&mut dimension?.kind, Kind::Int)?,
            "FLOAT" => once(&mut dimension?.kind, Kind::Float)?,
            "DIM" => {
                let name = args.string().map_err(|_| Error::Syntax)?;
                dimensions.push(Draft { name, direction: None, kind: None });
                in_dimension = true;
            }
            "TIES" => {
                once(&mut ties, rule_for_ties(args)?)?;
                in_dimension = false;
            }
            "KEEP" => {
                once(&mut keep, NonZeroU64::new(args.count()?).ok_or(Error::NotPositive)?)?;
                in_dimension = false;
            }
            _ => return Err(Error::Syntax),
        }
    }
    let dimensions = dimensions.into_iter().map(Draft::finish).collect();
    Ok(Schema::new(dimensions, ties.unwrap_or_default(), keep)?)
}

fn rule_for_ties(args: &mut Args<'_>) -> Result<Ties, Error> {
    match args.trailing_keyword()?.ok_or(Error::Syntax)?.as_str() {
        "FIRST" => Ok(Ties::First),
        "LAST" => Ok(Ties::Last),
        "NAME" => Ok(Ties::Name),
        _ => Err(Error::Syntax),
    }
}

impl Command for Create {
    const SPEC: Spec = Spec {
        name: c"ZLB.CREATE",
        summary: c"Creates an empty leaderboard of one or more dimensions.",
        complexity: c"O(D^2) with D the number of dimensions, 64 at the most",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -4,
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

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let schema = schema(&mut args)?;
        boards::create(ctx, key, schema, &arguments[1..])?;
        ctx.reply_ok();
        Ok(())
    }
}
