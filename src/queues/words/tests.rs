//! The words of 0.3, as 0.3 wrote them, are read.

use super::*;
use crate::base::time::Decimal;
use crate::queues::model::Extras;
use crate::queues::wire::tests::{OLD_KINDS, parts_of};
use crate::server::OwnedStr;
use crate::server::alone::without_a_server;
use proptest::prelude::*;

/// Encoded effects with the same time: the arguments of one ZQ.APPLY.
#[derive(Default)]
pub struct Words {
    /// The text of all arguments. `ends` has the end of each argument in this text.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    /// Returns the arguments of ZQ.APPLY after the key.
    pub fn arguments(&self) -> Vec<&[u8]> {
        let mut start = 0;
        self.ends.iter().map(|&end| &self.text[std::mem::replace(&mut start, end)..end]).collect()
    }

    /// Adds an effect. All added effects must have the same `at`.
    pub fn add(&mut self, effect: &Effect<'_>) {
        if self.ends.is_empty() {
            self.text.reserve(256);
            self.ends.reserve(12);
            self.number(effect.at);
        }
        match effect.change {
            Change::Push { job, generated, again } => {
                self.arg(if generated { &b"PUSHAUTO"[..] } else { b"PUSH" }).new_job(&job).flag(b"again", again)
            }
            Change::Job { id, change } => self.job_change(id, change),
            Change::SettleRates => self.arg(b"SETTLE"),
            Change::Redrive { count, group } => self.arg(b"REDRIVE").number(count).group(group),
            Change::Hold { group, until } => self.arg(b"HOLD").arg(group).number(until),
            Change::Configure(settings) => {
                self.arg(b"CONFIGURE").fields(Settings::FIELDS, &settings, &Settings::default())
            }
            Change::RestoreJob(job) => self.job(&job),
            Change::RestoreFollower(job) => self.arg(b"FOLLOWER").new_job(&job),
            Change::Declare { .. } | Change::RestoreDeclaration { .. } | Change::RestoreProgress { .. } => {
                unreachable!("0.3 has neither DECLARE nor PROGRESS")
            }
            Change::RestoreUnits { group, taken: Taken { back_at, units } } => {
                self.arg(b"UNITS").number(back_at).number(units).group(group)
            }
            Change::RestoreTurn { group } => self.arg(b"TURN").arg(group),
            Change::RestoreTotals(Totals { last_token, last_id, next_seq, counters }) => {
                self.arg(b"TOTALS").number(last_token).number(last_id.ms).number(last_id.seq).number(next_seq);
                self.fields(Counters::FIELDS, &counters, &Counters::default())
            }
        };
    }

    fn job_change(&mut self, id: &[u8], change: JobChange<'_>) -> &mut Words {
        match change {
            JobChange::Claim { token, deadline, worker } => {
                self.arg(b"CLAIM").arg(id).number(token).number(deadline).option(b"worker", worker)
            }
            JobChange::Ack { next_due: None } => self.arg(b"ACK").arg(id),
            JobChange::Ack { next_due: Some(due) } => self.arg(b"AGAIN").arg(id).number(due),
            JobChange::Retry { due, attempt, error } => {
                self.arg(b"RETRY").arg(id).number(due);
                self.flag(b"free", attempt == Attempt::Free)
                    .flag(b"last", attempt == Attempt::Last)
                    .option(b"error", error)
            }
            JobChange::Dead { is_free, error } => {
                self.arg(b"DEAD").arg(id).flag(b"free", is_free).option(b"error", error)
            }
            JobChange::Extend { deadline } => self.arg(b"EXTEND").arg(id).number(deadline),
            JobChange::Cancel => self.arg(b"CANCEL").arg(id),
            JobChange::Clean => self.arg(b"CLEAN").arg(id),
            JobChange::Drop => self.arg(b"DROP").arg(id),
            JobChange::Expire { next_due: again } => self.arg(b"EXPIRE").arg(id).time(b"due", again),
            JobChange::Follow => self.arg(b"FOLLOW").arg(id),
            JobChange::Revive => self.arg(b"REVIVE").arg(id),
            JobChange::Progress { .. } => unreachable!("0.3 has no PROGRESS"),
            JobChange::Reschedule { due, priority } => {
                self.arg(b"MOVE").arg(id);
                match due {
                    Some(due) => self.number(due),
                    None => self.arg(SAME),
                };
                match priority {
                    Some(priority) => self.signed(priority.into()),
                    None => self.arg(SAME),
                }
            }
        }
    }

    fn new_job(&mut self, job: &NewJob<'_>) -> &mut Words {
        let NewJob { id, payload, group, due, priority, max_attempts, every, ttl } = *job;
        self.arg(id).arg(payload).number(due).signed(priority.into());
        self.number(max_attempts.into()).number(every.unwrap_or(0)).option(b"group", group).time(b"ttl", ttl)
    }

    fn job(&mut self, job: &JobData<'_>) -> &mut Words {
        let Extras { worker, error, .. } = job.extras;
        self.arg(b"JOB").arg(job.id).arg(job.payload).arg(job.state.name().as_bytes());
        self.number(job.time).signed(job.priority.into()).number(job.seq);
        self.fields(&JobData::FIELDS, job, &job.bare());
        self.option(b"worker", worker).option(b"error", error).option(b"group", job.group)
    }

    fn fields<T>(&mut self, fields: &[Field<T>], of: &T, default: &T) -> &mut Words {
        for (name, value) in fields.iter().filter_map(|field| Some((field.name, field.changed(of, default)?))) {
            self.arg(name.as_bytes()).number(value);
        }
        self
    }

    fn flag(&mut self, name: &[u8], is_set: bool) -> &mut Words {
        if is_set { self.arg(name) } else { self }
    }

    fn option(&mut self, name: &[u8], value: &[u8]) -> &mut Words {
        if value.is_empty() { self } else { self.arg(name).arg(value) }
    }

    fn group(&mut self, group: Option<&[u8]>) -> &mut Words {
        match group {
            Some(group) => self.arg(b"group").arg(group),
            None => self,
        }
    }

    fn time(&mut self, name: &[u8], value: Option<Millis>) -> &mut Words {
        match value {
            Some(value) => self.arg(name).number(value),
            None => self,
        }
    }

    fn arg(&mut self, arg: &[u8]) -> &mut Words {
        self.text.extend_from_slice(arg);
        self.ends.push(self.text.len());
        self
    }

    fn number(&mut self, number: u64) -> &mut Words {
        self.arg(Decimal::of(number.min(i64::MAX.unsigned_abs())).as_bytes())
    }

    fn signed(&mut self, number: i64) -> &mut Words {
        if number < 0 {
            self.text.push(b'-');
        }
        self.number(number.unsigned_abs())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn effects_are_read_as_0_3_wrote_them(at in 0..=i64::MAX.unsigned_abs(), parts in prop::collection::vec(parts_of(OLD_KINDS), 1..8)) {
        without_a_server();
        let mut effects: Vec<_> = parts.iter().map(|parts| Effect { at, change: parts.change() }).collect();
        for effect in &mut effects {
            if let Change::RestoreJob(job) = &mut effect.change {
                job.backoff = None;
            }
        }
        let mut words = Words::default();
        effects.iter().for_each(|effect| words.add(effect));
        let words: Vec<_> = words.arguments().into_iter().map(OwnedStr::new).collect();
        let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
        prop_assert_eq!(decode(&words), Ok((at, effects)));
    }
}
