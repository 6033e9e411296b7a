//! `ZLB.INFO key`
//!
//! Returns a description of the board as a map, or null if the key is missing:
//!
//! | field        | value                                                                        |
//! |--------------|------------------------------------------------------------------------------|
//! | `members`    | number of members                                                            |
//! | `distinct`   | number of distinct tuples of values                                          |
//! | `ties`       | `first`, `last` or `name`                                                    |
//! | `keep`       | the maximum number of members, or null                                       |
//! | `dimensions` | list of maps: `name`, `direction` (`asc`, `desc`), `type` (`int`, `float`)   |

use crate::args::Args;
use crate::boards::model::{Board, Direction, Kind};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.INFO",
    summary: c"Returns the dimensions, settings and size of a leaderboard.",
    complexity: c"O(D) with D the number of dimensions",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let key = ReadKey::open(ctx, Args::new(arguments).string()?);
    let ctx = key.ctx();
    let Some(board) = key.value::<Board>()? else {
        ctx.reply_null();
        return Ok(());
    };
    let schema = board.schema();
    let entry = |name: &str, value: &str| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_bytes(value.as_bytes());
    };
    ctx.reply_map(5);
    ctx.reply_bytes(b"members");
    ctx.reply_count(board.len());
    ctx.reply_bytes(b"distinct");
    ctx.reply_count(board.distinct());
    entry("ties", &schema.ties().word().to_lowercase());
    ctx.reply_bytes(b"keep");
    match schema.keep() {
        None => ctx.reply_null(),
        Some(keep) => ctx.reply_count(keep.get()),
    }
    ctx.reply_bytes(b"dimensions");
    ctx.reply_array(schema.dimensions().len());
    for dimension in schema.dimensions() {
        ctx.reply_map(3);
        ctx.reply_bytes(b"name");
        ctx.reply_bytes(&dimension.name);
        entry("direction", if dimension.direction == Direction::Asc { "asc" } else { "desc" });
        entry("type", if dimension.kind == Kind::Int { "int" } else { "float" });
    }
    Ok(())
}
