//! What INFO says about leaderboards.

use super::{BoardStats, stats};
use crate::server::info::Info;

pub fn report(info: Info<'_>) {
    let BoardStats { boards, rejected_effects } = stats();
    info.field(c"boards", boards);
    info.field(c"board_effects_rejected", rejected_effects);
}
