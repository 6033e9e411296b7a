//! `ZLB.RANK key member [DENSE | COMPETITION]`
//!
//! Returns a member's zero-based rank, best first, or null if the member is not on the board.
//!
//! | values        | 9 | 7 | 7 | 5 |                                        |
//! |---------------|---|---|---|---|----------------------------------------|
//! | plain         | 0 | 1 | 2 | 3 | the member's position                  |
//! | `COMPETITION` | 0 | 1 | 1 | 3 | the number of better members           |
//! | `DENSE`       | 0 | 1 | 1 | 2 | the number of different better values  |

use super::{RANKING, reply_rank, shared_ranking};
use crate::args::{Args, once};
use crate::boards::model::Board;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.RANK",
    summary: c"Returns the zero-based rank of a member of a leaderboard, best first.",
    complexity: c"O(log N) with N the number of members of the board",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key"), Arg::string(c"member"), RANKING],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, member) = (args.string()?, args.string()?);
    let mut ranking = None;
    while let Some(keyword) = args.trailing_keyword()? {
        once(&mut ranking, shared_ranking(keyword.bytes())?)?;
    }
    let key = ReadKey::open(ctx, key);
    let ctx = key.ctx();
    let board = key.value::<Board>()?;
    reply_rank(ctx, board.and_then(|board| board.rank(member.bytes(), ranking.unwrap_or_default())));
    Ok(())
}
