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

use crate::args::Args;
use crate::boards::{self, parse::schema};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

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
    if !boards::create(ctx, key, schema)? {
        return Err(Error::BoardExists);
    }
    ctx.reply_ok();
    Ok(())
}
