//! The reply of ZRL.CHECK with names for its six numbers.

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

    /// What holds for every reply, whatever was asked.
    #[track_caller]
    fn check(&self) {
        assert!(matches!(self.allowed, 0 | 1), "{self:?}");
        assert!((0..=self.limit).contains(&self.remaining), "{self:?}");
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
    /// Sends a call of ZRL.CHECK or ZRL.PEEK.
    #[track_caller]
    pub fn verdict(&mut self, line: &str) -> Verdict {
        Verdict::from_fields(&self.ints(line))
    }

    /// As `verdict`, with the server's clock before and after: the call's own `now` is between the two.
    #[track_caller]
    pub fn timed_verdict(&mut self, line: &str) -> (i64, Verdict, i64) {
        let before = self.now();
        let verdict = self.verdict(line);
        (before, verdict, self.now())
    }

    /// The units held in a limit's entries as ZRANGE shows them, `(start, units, comes back at)`; panics where an entry
    /// does not have the documented form or does not begin where the one before it ended.
    #[track_caller]
    pub fn entries(&mut self, key: &str) -> Vec<(u64, u64, i64)> {
        let entries: Vec<(u64, u64, i64)> = self
            .scores(key)
            .iter()
            .map(|(member, score)| {
                let (start, units) = match member.split_once(':') {
                    Some((start, units)) => (start, units.parse().expect("units")),
                    None => (member.as_str(), 1),
                };
                assert!(units != 1 || !member.contains(':'), "{member}: one unit goes unsaid");
                (start.parse().expect("start"), units, *score as i64)
            })
            .collect();
        for pair in entries.windows(2) {
            assert_eq!(pair[0].0 + pair[0].1, pair[1].0, "a gap in {entries:?}");
            assert!(pair[0].2 < pair[1].2, "two entries of one moment in {entries:?}");
        }
        entries
    }

    /// Checks that a key bears the TTL of a limit: a whole second and 1 ms, after the last entry, by 21 s at the most.
    #[track_caller]
    pub fn assert_limit(&mut self, key: &str) {
        let last = self.entries(key).last().expect("an entry").2;
        let ttl = self.int(&format!("PEXPIRETIME {key}"));
        assert_eq!(ttl % 1000, 1, "{ttl}");
        assert!((last + 1..=last + 21_000).contains(&ttl), "{ttl}, the last entry at {last}");
    }
}
