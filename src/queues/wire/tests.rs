//! Tests that replicas decode the effects that a master encodes.

use super::*;
use crate::queues::model::{Extras, Recurrence, Ttl};
use proptest::prelude::*;

/// The number of kinds of changes.
const KINDS: usize = 26;
/// The first kinds, which Zeitset 0.3 has, too.
pub const OLD_KINDS: usize = 22;

/// Returns the number of a change's kind. The match has no wildcard, so a new kind must get a number here. The test
/// fails unless `Parts::change` generates all [`KINDS`].
fn kind(change: &Change<'_>) -> usize {
    match change {
        Change::Push { .. } => 0,
        Change::Job { change: JobChange::Claim { .. }, .. } => 1,
        Change::SettleRates => 2,
        Change::Job { change: JobChange::Ack { .. }, .. } => 3,
        Change::Job { change: JobChange::Retry { .. }, .. } => 4,
        Change::Job { change: JobChange::Dead { .. }, .. } => 5,
        Change::Job { change: JobChange::Extend { .. }, .. } => 6,
        Change::Job { change: JobChange::Cancel, .. } => 7,
        Change::Job { change: JobChange::Reschedule { .. }, .. } => 8,
        Change::Job { change: JobChange::Clean, .. } => 9,
        Change::Job { change: JobChange::Drop, .. } => 10,
        Change::Job { change: JobChange::Revive, .. } => 11,
        Change::Redrive { .. } => 12,
        Change::Configure(_) => 13,
        Change::RestoreJob(_) => 14,
        Change::RestoreUnits { .. } => 15,
        Change::RestoreTurn { .. } => 16,
        Change::RestoreTotals(_) => 17,
        Change::Hold { .. } => 18,
        Change::Job { change: JobChange::Expire { .. }, .. } => 19,
        Change::Job { change: JobChange::Follow, .. } => 20,
        Change::RestoreFollower(_) => 21,
        Change::Declare { .. } => 22,
        Change::RestoreDeclaration { .. } => 23,
        Change::RestoreProgress { .. } => 25,
        Change::Job { change: JobChange::Progress { .. }, .. } => 24,
    }
}

/// Random values, from which [`Parts::change`] builds a change. The `numbers` have at most 63 bits, like the integers
/// of an encoded effect.
#[derive(Clone, Debug)]
pub struct Parts {
    kind: usize,
    words: [Vec<u8>; 6],
    numbers: [u64; 20],
    small: [u32; 3],
    priority: i32,
    choices: [bool; 3],
}

pub fn any_parts() -> impl Strategy<Value = Parts> {
    parts_of(KINDS)
}

/// Returns parts of the first `kinds` kinds.
pub fn parts_of(kinds: usize) -> impl Strategy<Value = Parts> {
    let word = prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..12),
        // IDs as the queue generates them, and words that look like parts of encoded effects.
        1 => prop::sample::select(vec![&b"1795237731925-3"[..], b"-", b"JOB", b"worker", b"free", b"ttl", b"again", b"due", b"1"]).prop_map(<[u8]>::to_vec),
    ];
    let number = || prop_oneof![Just(0), Just(1), 0..=i64::MAX.unsigned_abs()];
    let numbers = prop::array::uniform20(number());
    let small = prop::array::uniform3(any::<u32>());
    let parts = (0..kinds, prop::array::uniform6(word), numbers, small, any::<i32>(), any::<[bool; 3]>());
    parts.prop_map(|(kind, words, numbers, small, priority, choices)| Parts {
        kind,
        words,
        numbers,
        small,
        priority,
        choices,
    })
}

impl Parts {
    pub fn change(&self) -> Change<'_> {
        let [id, payload, group, worker, error, progress] = [0, 1, 2, 3, 4, 5].map(|at| self.words[at].as_slice());
        let [first, second, third, fourth, ..] = self.numbers;
        let [yes, or, and] = self.choices;
        let (priority, due) = (self.priority, first);
        let of_job = |change| Change::Job { id, change };
        let taken = Taken { back_at: first, units: second };
        match self.kind {
            0 => Change::Push { job: self.new_job(), generated: yes, again: or },
            1 => of_job(JobChange::Claim { token: first, deadline: second, worker }),
            2 => Change::SettleRates,
            3 => of_job(JobChange::Ack { next_due: yes.then_some(first) }),
            4 => {
                let attempt = [Attempt::Counts, Attempt::Free, Attempt::Last][self.small[0] as usize % 3];
                of_job(JobChange::Retry { due, attempt, error })
            }
            5 => of_job(JobChange::Dead { is_free: yes, error }),
            6 => of_job(JobChange::Extend { deadline: first }),
            7 => of_job(JobChange::Cancel),
            8 => of_job(JobChange::Reschedule { due: yes.then_some(due), priority: or.then_some(priority) }),
            9 => of_job(JobChange::Clean),
            10 => of_job(JobChange::Drop),
            11 => of_job(JobChange::Revive),
            12 => Change::Redrive { count: first, group: yes.then_some(group) },
            13 => Change::Configure(self.settings()),
            14 => Change::RestoreJob(JobData {
                id,
                group,
                payload,
                state: [State::Ready, State::Delayed, State::Claimed, State::Dead][self.small[0] as usize % 4],
                time: first,
                priority,
                seq: second,
                token: third,
                attempts: self.small[1],
                max_attempts: self.small[2],
                recurrence: yes.then_some(Recurrence { period: self.numbers[5].max(1), anchor: self.numbers[6] }),
                created: fourth,
                ttl: or.then_some(Ttl { ttl: self.numbers[10].max(1), expires: self.numbers[11] }),
                backoff: and.then_some(self.numbers[6]),
                extras: Extras {
                    claimed: self.numbers[7],
                    failed: self.numbers[8],
                    since: self.numbers[9],
                    worker,
                    error,
                    ..Extras::default()
                },
            }),
            15 => Change::RestoreUnits { group: and.then_some(group), taken },
            16 => Change::RestoreTurn { group },
            17 => Change::RestoreTotals(self.totals()),
            18 => Change::Hold { group, until: first },
            19 => of_job(JobChange::Expire { next_due: yes.then_some(first) }),
            20 => of_job(JobChange::Follow),
            21 => Change::RestoreFollower(self.new_job()),
            22 => Change::Declare { job: self.new_job(), is_timed: yes },
            23 => Change::RestoreDeclaration { job: self.new_job(), is_timed: yes },
            24 => of_job(JobChange::Progress { text: progress }),
            _ => Change::RestoreProgress { id, text: progress, at: first },
        }
    }

    fn new_job(&self) -> NewJob<'_> {
        NewJob {
            id: &self.words[0],
            payload: &self.words[1],
            group: &self.words[2],
            due: self.numbers[0],
            priority: self.priority,
            max_attempts: self.small[0],
            every: Some(self.numbers[1]).filter(|&every| every > 0),
            ttl: self.choices[2].then_some(self.numbers[2]),
        }
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for (field, value) in Settings::FIELDS.iter().zip(self.numbers).filter(|(_, value)| *value > 0) {
            (field.set)(&mut settings, value.min(field.most));
        }
        settings
    }

    fn totals(&self) -> Totals {
        let [last_token, ms, seq, next_seq, counts @ ..] = self.numbers;
        let mut counters = Counters::default();
        for (field, value) in Counters::FIELDS.iter().zip(counts) {
            (field.set)(&mut counters, value.min(field.most));
        }
        Totals { last_token, last_id: AutoId { ms, seq }, next_seq, counters }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn effects_are_read_as_they_were_written(at: u64, parts in prop::collection::vec(any_parts(), 1..8)) {
        let effects: Vec<_> = parts.iter().map(|parts| Effect { at, change: parts.change() }).collect();
        for (effect, parts) in effects.iter().zip(&parts) {
            prop_assert_eq!(kind(&effect.change), parts.kind);
        }
        let mut packed = EncodedEffects::default();
        effects.iter().for_each(|effect| packed.add(effect));
        prop_assert_eq!(packed.effects(), effects.len());
        prop_assert_eq!(decode(packed.bytes()), Ok((at, effects)));
    }

    /// Bytes that no master wrote are refused, or they are what a master would write.
    #[test]
    fn any_bytes_are_refused_or_written_alike(parts in prop::collection::vec(any_parts(), 1..3), damage: [(prop::sample::Index, u8); 2], cut: prop::sample::Index) {
        let mut packed = EncodedEffects::default();
        parts.iter().for_each(|parts| packed.add(&Effect { at: 7, change: parts.change() }));
        let mut bytes = packed.bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
            if let Ok((_, effects)) = decode(bytes) {
                let mut again = EncodedEffects::default();
                effects.iter().for_each(|effect| again.add(effect));
                prop_assert_eq!(again.bytes(), bytes);
            }
        }
    }
}
