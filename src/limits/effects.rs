//! What a change of a limit tells the world: the one place through which every write goes.
//!
//! A changed key is closed, replicated and signalled to WATCH and client-side caching at once; those who listen for events are told
//! last, since their code may do anything to any key: [`News::announce`].

use crate::model::time::Millis;
use crate::server::context::EventClass;
use crate::server::shared::Shared;
use crate::server::{Context, OwnedStr, Str};
use lazy_static::lazy_static;
use smallvec::SmallVec;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The events owed for a change.
#[must_use = "somebody listens, perhaps"]
#[derive(Default)]
pub struct News(SmallVec<[(EventClass, &'static CStr); 4]>);

impl News {
    fn add(&mut self, class: EventClass, event: &'static CStr) {
        self.0.push((class, event));
    }

    /// Runs the code of those who listen.
    pub fn announce(self, ctx: &mut Context, name: Str<'_>) {
        if self.0.is_empty() {
            return;
        }
        crate::server::fault!("announce");
        let _own = Own::of(name);
        for (class, event) in self.0 {
            ctx.notify(class, event, name);
        }
    }
}

/// The name of the key whose change is being announced. It is told by where it lies: the events that other people's code causes on
/// the way carry names of their own.
static OWN: AtomicPtr<u8> = AtomicPtr::new(null_mut());

struct Own;

impl Own {
    fn of(name: Str<'_>) -> Own {
        OWN.store(name.bytes().as_ptr().cast_mut(), Ordering::Relaxed);
        Own
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        OWN.store(null_mut(), Ordering::Relaxed);
    }
}

/// Whether this is an event of our own, about a limit: no news to the rest of the module, to which limits are other people's keys.
pub fn is_own_event(event: Str<'_>) -> bool {
    let own = OWN.load(Ordering::Relaxed);
    !own.is_null() && std::ptr::eq(own, event.bytes().as_ptr())
}

lazy_static! {
    /// A word that is sent with every change, made once.
    static ref PXAT: Shared<Word> = Shared::new(Word(OwnedStr::new(b"PXAT")));
}

struct Word(OwnedStr);

/// A string was set: one SET with its TTL, one event as SET has it.
pub fn replicate_set(ctx: &Context, name: Str<'_>, value: &[u8], expires_at: Millis) -> News {
    crate::server::fault!("set-changed");
    let (value, at) = (OwnedStr::new(value), integer(expires_at));
    PXAT.with(ctx, |option| ctx.replicate(c"SET", &[name, value.as_str(), option.0.as_str(), at.as_str()]));
    ctx.signal_modified(name);
    let mut news = News::default();
    news.add(EventClass::String, c"set");
    news
}

/// A key is gone as a whole.
pub fn replicate_unlink(ctx: &Context, name: Str<'_>) -> News {
    ctx.replicate(c"UNLINK", &[name]);
    ctx.signal_modified(name);
    let mut news = News::default();
    news.add(EventClass::Generic, c"del");
    news
}

/// What was done to a sorted set, in this order: so that no removal can empty the set, and lose its TTL, on the way.
#[derive(Default)]
pub struct Changes {
    pub put: SmallVec<[(OwnedStr, Millis); 1]>,
    pub removed: SmallVec<[OwnedStr; 1]>,
    pub expires_at: Option<Millis>,
    pub is_empty: bool,
}

impl Changes {
    pub fn is_none(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty() && self.expires_at.is_none()
    }

    pub fn replicate(self, ctx: &Context, name: Str<'_>) -> News {
        let mut news = News::default();
        if self.is_none() {
            return news;
        }
        if !self.put.is_empty() {
            let scores: SmallVec<[_; 1]> = self.put.iter().map(|(_, at)| integer(*at)).collect();
            let mut arguments: SmallVec<[_; 3]> = SmallVec::with_capacity(1 + 2 * scores.len());
            arguments.push(name);
            for ((member, _), score) in self.put.iter().zip(&scores) {
                arguments.extend([score.as_str(), member.as_str()]);
            }
            ctx.replicate(c"ZADD", &arguments);
            news.add(EventClass::SortedSet, c"zadd");
        }
        if !self.removed.is_empty() {
            let members = self.removed.iter().map(OwnedStr::as_str);
            let arguments: SmallVec<[_; 3]> = std::iter::once(name).chain(members).collect();
            ctx.replicate(c"ZREM", &arguments);
            news.add(EventClass::SortedSet, c"zrem");
        }
        if self.is_empty {
            news.add(EventClass::Generic, c"del");
        }
        if let Some(at) = self.expires_at {
            ctx.replicate(c"PEXPIREAT", &[name, integer(at).as_str()]);
            news.add(EventClass::Generic, c"expire");
        }
        ctx.signal_modified(name);
        news
    }
}

fn integer(number: u64) -> OwnedStr {
    OwnedStr::from_integer(i64::try_from(number).unwrap_or(i64::MAX))
}
