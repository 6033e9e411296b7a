//! A limit in a string: FIXED, LEAKY, THROTTLE.

use super::effects::{self, News};
use crate::error::Error;
use crate::model::limit::Stored;
use crate::model::limit::text::CAPACITY;
use crate::server::key::{Access, Key, Writing};
use crate::server::text::Text;
use crate::server::{Context, Str};

/// An open string that is a limit, or a key that is free to become one.
pub struct TextLimit<'k, A: Access> {
    text: Text<'k, A>,
    name: Str<'k>,
    pub stored: Option<Stored>,
}

impl<'k, A: Access> TextLimit<'k, A> {
    /// The string in `key`, which holds one, or nothing. Other people's strings are an error, and left alone.
    pub fn read(key: Key<'k, A>, name: Str<'k>) -> Result<TextLimit<'k, A>, Error> {
        let mut text = Text::new(key).ok_or(Error::WrongType)?;
        if text.is_missing() {
            return Ok(TextLimit { text, name, stored: None });
        }
        let read = text.read(CAPACITY, |text, expires_at| Stored::parse(text, expires_at));
        let stored = read.and_then(Result::ok).ok_or(Error::NotLimit)?;
        Ok(TextLimit { text, name, stored: Some(stored) })
    }

    pub fn ctx(&self) -> &Context {
        self.text.ctx()
    }
}

impl<'k> TextLimit<'k, Writing> {
    pub fn close(self) -> &'k mut Context {
        self.text.close()
    }

    /// Makes the string `stored`, or removes it; replicates that.
    pub fn write(mut self, stored: Option<Stored>) -> (&'k mut Context, News) {
        let Some(stored) = stored else {
            if self.text.is_missing() {
                return (self.text.close(), News::default());
            }
            let ctx = self.text.unlink();
            let news = effects::replicate_unlink(ctx, self.name);
            return (ctx, news);
        };
        let value = stored.text();
        let before = match self.stored {
            None => None,
            // It was asked for to recognise the key.
            Some(Stored::Throttle(arrival)) => Some(arrival.expires_at()),
            Some(_) => self.text.expires_at(),
        };
        let expires_at = stored.expires_at(before);
        self.text.set(value.as_bytes());
        if before != Some(expires_at) {
            self.text.expire_at(expires_at);
        }
        let ctx = self.text.close();
        let news = effects::replicate_set(ctx, self.name, value.as_bytes(), expires_at);
        (ctx, news)
    }
}
