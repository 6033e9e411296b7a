//! A message for each member that was swept, for applications that act on what has expired: `zeitset.announce-members`.
//!
//! The channel names database and key, the message is the member. Publishing runs nobody's code, so it may happen while the set
//! is open; and it happens chunk by chunk, so that what it costs counts for the length of a slice.

use crate::config;
use crate::server::zset::Element;
use crate::server::{Context, OwnedStr, Str};

/// Tells of members that are gone from the set of that name, in the database that is selected; if that is asked for.
pub(super) fn announce_members(ctx: &Context, name: Str<'_>, gone: &[Element]) {
    if gone.is_empty() || !config::ANNOUNCE_MEMBERS.get() {
        return;
    }
    let mut channel = format!("__zeitset@{}__:expired:", ctx.database()).into_bytes();
    channel.extend_from_slice(name.bytes());
    let channel = OwnedStr::new(&channel);
    gone.iter().for_each(|element| ctx.publish(channel.as_str(), element.member.as_str()));
}
