//! The reply of ZRL.CHECK as a struct.

use crate::client::Client;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub allowed: i64,
    pub limit: i64,
    pub remaining: i64,
    pub retry_after: i64,
    pub reset_after: i64,
    pub charged_until: i64,
}

impl Verdict {
    #[track_caller]
    pub fn from_fields(fields: &[i64]) -> Self {
        let &[allowed, limit, remaining, retry_after, reset_after, charged_until] = fields else {
            panic!("not six fields: {fields:?}")
        };
        let verdict = Self { allowed, limit, remaining, retry_after, reset_after, charged_until };
        verdict.check();
        verdict
    }

    #[track_caller]
    fn check(&self) {
        assert!(matches!(self.allowed, 0 | 1), "{self:?}");
        // `remaining` is negative if the limit has a debt.
        assert!(self.remaining <= self.limit, "{self:?}");
        assert!(self.reset_after >= 0, "{self:?}");
        if self.allowed == 1 {
            assert_eq!(self.retry_after, 0, "{self:?}");
        } else {
            assert!(self.retry_after > 0 || self.retry_after == -1, "{self:?}");
            assert!(self.retry_after <= self.reset_after, "{self:?}");
            assert_eq!(self.charged_until, 0, "{self:?}");
        }
    }
}

impl Client {
    #[track_caller]
    pub fn verdict(&mut self, line: &str) -> Verdict {
        Verdict::from_fields(&self.ints(line))
    }

    /// Like `verdict`, but also returns the server's time before and after the call.
    #[track_caller]
    pub fn timed_verdict(&mut self, line: &str) -> (i64, Verdict, i64) {
        let before = self.now();
        let verdict = self.verdict(line);
        (before, verdict, self.now())
    }

    /// Returns the slots of a SLIDING limit, including expired ones, as `(units, available again at)`, ordered by time.
    /// Leaves out slots without units, and the oldest slot, whose units are unknown.
    ///
    /// Reads the key's string, and parses the format in docs/formats.md. Panics if the string has another format.
    #[track_caller]
    pub fn slots(&mut self, key: &str) -> Vec<(u64, i64)> {
        let redis::Value::BulkString(text) = self.call(redis::cmd("GET").arg(key)) else {
            panic!("no string in {key}")
        };
        let (slots, rest) = text.strip_prefix(b"sliding:").expect("a tag").as_chunks::<16>();
        assert_eq!(rest, [0; 0]);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let mut slots: Vec<_> = slots.iter().map(|slot| (number(&slot[..8]), number(&slot[8..]))).collect();
        slots.retain(|(at, _)| *at > 0);
        slots.sort_unstable();
        let units = |pair: &[(u64, u64)]| {
            assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1, "{slots:?}");
            (pair[1].1 - pair[0].1, i64::try_from(pair[1].0).expect("a moment"))
        };
        slots.windows(2).map(units).filter(|(units, _)| *units > 0).collect()
    }

    #[track_caller]
    pub fn units(&mut self, key: &str) -> u64 {
        let now = self.now();
        self.slots(key).iter().filter(|(_, at)| *at > now).map(|(units, _)| units).sum()
    }
}
