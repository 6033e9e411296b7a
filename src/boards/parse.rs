//! Parsers for the arguments of ZLB.CREATE and ZLB.SET. The text form of effects (`boards/words.rs`) has the same
//! arguments.

use crate::args::{Args, once};
use crate::boards::model::{Dimension, Direction, Kind, Schema, Ties, Value};
use crate::error::Error;
use crate::server::Str;
use std::num::NonZeroU64;

/// A dimension whose options are being parsed.
struct Draft<'a> {
    name: Str<'a>,
    direction: Option<Direction>,
    kind: Option<Kind>,
}

/// Parses `DIM name [ASC | DESC] [INT | FLOAT] ... [TIES FIRST | LAST | NAME] [KEEP n]`.
pub fn schema(args: &mut Args<'_>) -> Result<Schema, Error> {
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

/// Whether an argument of ZLB.SET is the name of an option. Such an argument can also be a member with this name.
pub fn is_option(argument: Str<'_>) -> bool {
    [&b"NX"[..], b"XX", b"BEST", b"WITHRANK"].iter().any(|option| option.eq_ignore_ascii_case(argument.bytes()))
}

pub fn value(args: &mut Args<'_>, dimension: &Dimension) -> Result<Value, Error> {
    match dimension.kind {
        Kind::Int => args.integer().map(Value::Int),
        Kind::Float => args.float().map(Value::Float),
    }
}

/// Parses the values of members. `words` has each member's name, followed by its values.
pub fn values(words: &[Str<'_>], dimensions: &[Dimension]) -> Result<Vec<Value>, Error> {
    let mut values = Vec::with_capacity(words.len());
    for row in words.chunks_exact(1 + dimensions.len()) {
        for (text, dimension) in row[1..].chunks(1).zip(dimensions) {
            let value = value(&mut Args::new(text), dimension);
            // A keyword in the place of a value means that there are too many options.
            values.push(value.map_err(|error| if is_option(text[0]) { Error::Syntax } else { error })?);
        }
    }
    Ok(values)
}
