//! The tag: the member `zeitset:expiring` with the score `-inf`, which makes a sorted set an expiring set.

use crate::server::{Context, StaticStr, Str};
use lazy_static::lazy_static;

const NAME: &[u8] = b"zeitset:expiring";

lazy_static! {
    static ref TAG: StaticStr = StaticStr::new(NAME);
}

/// Returns the name of the member that makes a sorted set an expiring set.
pub(super) fn tag(ctx: &Context) -> Str<'static> {
    TAG.get(ctx)
}

/// Whether this member is the tag, which commands do not show or change.
pub fn is_tag(member: Str<'_>) -> bool {
    member.bytes() == NAME
}
