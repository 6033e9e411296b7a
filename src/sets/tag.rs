//! The tag: the member `zeitset:expiring` with the score `-inf`, which makes a sorted set an expiring set.

use crate::server::zset::Element;
use crate::server::{Context, StaticStr, Str};
use lazy_static::lazy_static;

const NAME: &[u8] = b"zeitset:expiring";

lazy_static! {
    static ref TAG: StaticStr = StaticStr::new(NAME);
}

/// The score of the tag. Other members may have this score, too.
pub const SCORE: f64 = f64::NEG_INFINITY;

/// Returns the name of the tag.
pub fn name(ctx: &Context) -> Str<'static> {
    TAG.get(ctx)
}

/// Whether this is the tag's name. ZEXP commands neither show nor change a member of this name.
pub fn is_name(member: Str<'_>) -> bool {
    member.bytes() == NAME
}

pub fn is_tag(element: &Element) -> bool {
    element.score == SCORE && is_name(element.member.as_str())
}
