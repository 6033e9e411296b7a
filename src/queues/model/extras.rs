//! Extras: the optional texts and times of a job, such as the worker's name and the error text.

use super::Millis;
use super::job_data::Extras;

/// A time in seven bytes. They suffice, because a time has at most 53 bits.
#[derive(Clone, Copy, Debug, Default)]
struct ShortTime([u8; 7]);

impl ShortTime {
    fn of(time: Millis) -> ShortTime {
        let [low @ .., _] = time.to_le_bytes();
        ShortTime(low)
    }

    fn get(self) -> Millis {
        let [a, b, c, d, e, f, g] = self.0;
        Millis::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

/// An owned copy of the [`Extras`] of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnedExtras {
    claimed: ShortTime,
    failed: ShortTime,
    since: ShortTime,
    worker_len: u8,
    error_len: [u8; 2],
    /// The worker's name, then the error text. If the job has a text of PROGRESS, the time of this text, in seven
    /// bytes, and the text follow.
    texts: Box<[u8]>,
}

impl OwnedExtras {
    pub fn owned_bytes(&self) -> usize {
        self.texts.len()
    }

    pub fn extras(&self) -> Extras<'_> {
        let (worker, rest) = self.texts.split_at(self.worker_len.into());
        let (error, rest) = rest.split_at(u16::from_le_bytes(self.error_len).into());
        let (progressed, progress) = match rest.split_first_chunk() {
            Some((&time, text)) => (ShortTime(time).get(), text),
            None => (0, &b""[..]),
        };
        let [claimed, failed, since] = [self.claimed, self.failed, self.since].map(ShortTime::get);
        Extras { claimed, failed, since, worker, error, progress, progressed }
    }

    pub fn set_claimed(&mut self, time: Millis) {
        self.claimed = ShortTime::of(time);
    }

    pub fn set_failed(&mut self, time: Millis) {
        self.failed = ShortTime::of(time);
    }

    pub fn set_since(&mut self, time: Millis) {
        self.since = ShortTime::of(time);
    }

    pub fn set(&mut self, extras: Extras<'_>) {
        self.set_claimed(extras.claimed);
        self.set_failed(extras.failed);
        self.set_since(extras.since);
        self.texts = texts(extras);
        (self.worker_len, self.error_len) = (extras.worker.len() as u8, (extras.error.len() as u16).to_le_bytes());
    }

    /// Sets the worker's name, at most [`MAX_WORKER`](super::MAX_WORKER) bytes, and the error text. `None` keeps the
    /// old name or text.
    pub fn set_texts(&mut self, worker: Option<&[u8]>, error: Option<&[u8]>) {
        let old = self.extras();
        let (worker, error) = (worker.unwrap_or(old.worker), error.unwrap_or(old.error));
        if (worker, error) != (old.worker, old.error) {
            let lens = (worker.len() as u8, (error.len() as u16).to_le_bytes());
            self.texts = texts(Extras { worker, error, ..old });
            (self.worker_len, self.error_len) = lens;
        }
    }

    pub fn set_progress(&mut self, progress: &[u8], at: Millis) {
        let progressed = if progress.is_empty() { 0 } else { at };
        self.texts = texts(Extras { progress, progressed, ..self.extras() });
    }
}

/// Joins the texts of a job as [`OwnedExtras::texts`] stores them.
fn texts(extras: Extras<'_>) -> Box<[u8]> {
    let Extras { worker, error, progress, progressed, .. } = extras;
    let time = ShortTime::of(progressed).0;
    [worker, error, if progress.is_empty() { &[] } else { &time[..] }, progress].concat().into()
}
