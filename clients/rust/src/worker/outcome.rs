//! The outcomes of jobs, and the commands that report them to the server.

use super::job::{Discard, JobInfo, Retry};
use crate::commands::zq;
use crate::time::Period;
use redis::Cmd;
use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// An error of a handler.
pub(super) type Failure = Box<dyn StdError + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Failed,
    Retried,
    Discarded,
    Released,
}

#[derive(Clone)]
pub(super) struct Outcome {
    pub job: Arc<JobInfo>,
    pub ran: Duration,
    pub ending: Ending,
    /// The commands that report the outcome. Several commands are sent in one MULTI.
    pub commands: Vec<Cmd>,
    /// A ZQ.GET that follows a failed attempt. Its reply shows whether the job is now a dead letter.
    pub look: Option<Cmd>,
    /// Whether this outcome makes the job a dead letter.
    pub is_dead: bool,
    /// Whether the attempt is not counted.
    pub is_free: bool,
    /// Whether an earlier report of this outcome failed. A stale token is then no error: perhaps only the reply to the
    /// earlier report got lost.
    pub is_repeated: bool,
    pub error: Option<Arc<str>>,
}

/// Returns the wait after a failure, by the number of the attempt: 1 s, 2 s, 4 s … at most an hour.
pub(super) fn default_backoff(attempt: u64) -> Duration {
    Duration::from_secs(3600.min(1 << attempt.saturating_sub(1).min(30)))
}

pub(super) fn ack(job: &JobInfo) -> Cmd {
    zq::ack(job.key(), job.id_bytes(), job.token()).into()
}

fn nack(job: &JobInfo) -> crate::Call<zq::Nack, bool> {
    zq::nack(job.key(), job.id_bytes(), job.token())
}

fn outcome(job: Arc<JobInfo>, ran: Duration, ending: Ending, commands: Vec<Cmd>) -> Outcome {
    let (look, is_dead, is_free, is_repeated, error) = (None, false, false, false, None);
    Outcome { job, ran, ending, commands, look, is_dead, is_free, is_repeated, error }
}

pub(super) fn completed(job: Arc<JobInfo>, ran: Duration) -> Outcome {
    let commands = [vec![ack(&job)], job.chained()].concat();
    outcome(job, ran, Ending::Completed, commands)
}

pub(super) fn released(job: Arc<JobInfo>, ran: Duration) -> Outcome {
    let commands = vec![nack(&job).delay(0).free().into()];
    outcome(job, ran, Ending::Released, commands)
}

/// Returns the outcome of a failed job. `kind` is the type of the error. `backoff` is the worker's wait; None if the
/// queue has a BACKOFF. If the wait of a [`Retry`] is no duration, the job fails with this error instead.
pub(super) fn failed(
    job: Arc<JobInfo>,
    ran: Duration,
    kind: &str,
    error: &Failure,
    backoff: Option<Duration>,
) -> Outcome {
    let text = kept(kind, error.as_ref());
    if error.downcast_ref::<Discard>().is_some() {
        return discarded(job, ran, text);
    }
    let retry = error.downcast_ref::<Retry>();
    let after = match retry.and_then(|retry| retry.after.as_ref()).map(Period::capped).transpose() {
        Ok(after) => after,
        Err(error) => return failed(job, ran, "Error", &error.into(), backoff),
    };
    let mut call = nack(&job);
    if let Some(wait) = after.or(backoff) {
        call = call.delay(wait);
    }
    // The server refuses HOLD 0.
    if let Some(wait) = after.filter(|wait| !wait.is_zero() && retry.is_some_and(|retry| retry.hold)) {
        call = call.hold(wait);
    }
    let is_free = retry.is_some_and(|retry| retry.free);
    if is_free {
        call = call.free();
    }
    let look = Some(zq::get(job.key(), job.id_bytes()).into());
    let ending = if retry.is_some() { Ending::Retried } else { Ending::Failed };
    let commands = vec![call.error(&text).into()];
    Outcome { look, is_free, error: Some(text.into()), ..outcome(job, ran, ending, commands) }
}

pub(super) fn discarded(job: Arc<JobInfo>, ran: Duration, text: String) -> Outcome {
    let commands = vec![nack(&job).dead().error(&text).into()];
    Outcome { is_dead: true, error: Some(text.into()), ..outcome(job, ran, Ending::Discarded, commands) }
}

/// Calls a function of the user in the loop of the worker. Returns None if the function panics.
pub(super) fn caught<R>(function: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}

/// Returns the type and the text of an error, at most 1,024 bytes. Does not cut within a character.
pub(super) fn kept(kind: &str, error: &(dyn StdError + Send + Sync + 'static)) -> String {
    let kind = if error.is::<Retry>() {
        "Retry"
    } else if error.is::<Discard>() {
        "Discard"
    } else {
        // The last name of a path such as `std::io::Error`. A box hides the type of its error.
        let plain = kind.split('<').next().unwrap_or_default();
        if kind.contains("dyn ") { "Error" } else { plain.rsplit("::").next().unwrap_or_default() }
    };
    let text = caught(|| error.to_string());
    let mut text = format!("{kind}: {}", text.as_deref().unwrap_or("its text cannot be read"));
    text.truncate((0..=text.len().min(1024)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default());
    text
}
