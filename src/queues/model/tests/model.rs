//! A simple model of a queue: one vector, linear scans, `Vec::sort`.

use super::super::wake::CLEARED_AFTER;
use super::super::{Counters, Fate, JobFilter, NackOptions, Push, Rate, Settings, State};
use super::Got;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq)]
enum Where {
    /// `true` if a command made the job due at once. Such a job stays ready if the clock steps back.
    Waiting(bool),
    Claimed,
    Dead,
}

#[derive(Clone, Debug)]
pub struct ModelJob {
    pub id: Vec<u8>,
    pub payload: Vec<u8>,
    place: Where,
    pub time: u64,
    pub priority: i32,
    pub attempts: u32,
    pub max: u32,
    every: Option<(u64, u64)>,
    /// How long the job waits after its lease, as BACKOFF was at the claim.
    wait: u64,
    seq: u64,
    token: u64,
    pub created: u64,
    pub claimed: Option<u64>,
    failed: Option<u64>,
    /// The latest time at which one of three things happened: RESCHEDULE set a new due time; NACK with FREE returned
    /// the job; ACK or the upkeep moved the job to its next occurrence. A claim resets this time to 0.
    moved: u64,
    pub worker: Vec<u8>,
    pub error: Vec<u8>,
    /// Empty if the job has no group.
    pub group: Vec<u8>,
    /// The TTL, and the time at which the job expires.
    pub ttl: Option<(u64, u64)>,
    /// A push with AGAIN that waits until this job is finished.
    pub next: Option<Next>,
    /// A push with DECLARE that waits until this job's claim ends, and whether it has AT or DELAY.
    pub declared: Option<(Next, bool)>,
    /// The last text of PROGRESS, and its time. 0 if the text is empty.
    pub progress: Vec<u8>,
    pub progressed: u64,
}

/// The arguments of a push with AGAIN or DECLARE, without the ID.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub payload: Vec<u8>,
    group: Vec<u8>,
    due: u64,
    priority: i32,
    max: u32,
    every: Option<u64>,
    ttl: Option<u64>,
}

impl Next {
    fn of(push: &Push<'_>, settings: &Settings) -> Next {
        Next {
            payload: push.payload.to_vec(),
            group: push.group.to_vec(),
            due: push.due,
            priority: push.priority,
            max: push.max_attempts.unwrap_or(settings.max_attempts),
            every: push.every,
            ttl: push.ttl,
        }
    }
}

impl ModelJob {
    fn exhausted(&self) -> bool {
        self.max > 0 && self.attempts >= self.max
    }

    pub fn failed(&self, now: u64) -> Option<u64> {
        if self.place == Where::Claimed && self.time <= now { Some(self.time) } else { self.failed }
    }

    /// Returns when a claimed job is due again if its lease expires. Returns `None` if the job then becomes a dead
    /// letter.
    fn due_again_at(&self) -> Option<u64> {
        match self.every {
            _ if !self.exhausted() => Some(self.time + self.wait),
            Some((period, anchor)) => Some(next_occurrence(period, anchor, self.time)),
            None => None,
        }
    }

    /// Whether the job is recurring, its lease has expired, and no attempt is left. Such a job waits for its next
    /// occurrence.
    fn has_missed(&self, now: u64) -> bool {
        self.place == Where::Claimed && self.time <= now && self.exhausted() && self.every.is_some()
    }

    pub fn expires(&self, now: u64) -> Option<u64> {
        let (ttl, expires) = self.ttl?;
        Some(if self.has_missed(now) { self.due_again_at()? + ttl } else { expires })
    }

    fn has_expired(&self, now: u64) -> bool {
        let waits = matches!(self.state(now), State::Ready | State::Delayed);
        waits && self.expires(now).is_some_and(|expires| expires <= now)
    }

    /// Makes the period (EVERY) and the TTL of the job begin at `due`.
    fn count_from(&mut self, due: u64) {
        self.every = self.every.map(|(period, _)| (period, due));
        self.ttl = self.ttl.map(|(ttl, _)| (ttl, due + ttl));
    }

    /// Makes the job wait for its next occurrence. If a push with AGAIN waits for the end of the job's run, the job
    /// gets the payload and the TTL of this push.
    fn prepare_occurrence(&mut self, due: u64) {
        self.attempts = 0;
        if let Some(next) = self.next.take() {
            self.payload = next.payload;
            self.ttl = next.ttl.map(|ttl| (ttl, 0));
            (self.progress, self.progressed) = (Vec::new(), 0);
        }
        self.count_from(due);
    }

    /// Returns when the upkeep must act on the job: when the job has expired, or when a waiting push with AGAIN becomes
    /// a job.
    fn upkeep(&self) -> Option<u64> {
        let dies = self.place == Where::Claimed && self.due_again_at().is_none();
        match self.place {
            Where::Dead => None,
            _ if self.declared.is_some() => Some(self.time),
            _ if dies => self.next.as_ref().map(|_| self.time),
            Where::Claimed => Some(self.expires(u64::MAX)?.max(self.time)),
            Where::Waiting(_) => self.ttl.map(|(_, expires)| expires),
        }
    }

    /// Whether the job is recurring and waits for its next run. In an ORDERED queue, such a job does not block its
    /// group.
    fn is_between(&self, now: u64) -> bool {
        let waits = self.place == Where::Waiting(false) && self.attempts == 0;
        self.has_missed(now) || waits && self.every.is_some_and(|(_, anchor)| anchor == self.time)
    }

    /// Returns the time at which the job entered its state.
    fn since(&self, now: u64) -> u64 {
        let last = [Some(self.created), self.claimed, self.failed(now), Some(self.moved)].into_iter().flatten().max();
        match self.state(now) {
            State::Dead => self.time,
            State::Ready => self.due(now).max(last.unwrap()),
            _ => last.unwrap(),
        }
    }

    pub fn attempts(&self, now: u64) -> u32 {
        if self.has_missed(now) { 0 } else { self.attempts }
    }

    /// Returns the due time of a waiting job. If the job waits because its lease has expired, returns the time at which
    /// the job is due again.
    pub fn due(&self, now: u64) -> u64 {
        match self.place {
            Where::Claimed if self.time <= now => self.due_again_at().unwrap_or(self.time),
            _ => self.time,
        }
    }

    pub fn state(&self, now: u64) -> State {
        match self.place {
            Where::Dead => State::Dead,
            Where::Waiting(true) => State::Ready,
            Where::Waiting(false) if self.time <= now => State::Ready,
            Where::Waiting(false) => State::Delayed,
            Where::Claimed if self.time > now => State::Claimed,
            Where::Claimed => match self.due_again_at() {
                None => State::Dead,
                Some(back) if back > now => State::Delayed,
                Some(_) => State::Ready,
            },
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub jobs: Vec<ModelJob>,
    pub settings: Settings,
    /// When each taken unit becomes available again.
    units: Vec<u64>,
    /// The groups with jobs, in the order of their turns.
    pub ring: Vec<Vec<u8>>,
    /// When each taken unit of a group becomes available again.
    group_units: Vec<(Vec<u8>, u64)>,
    /// The end of each held group's hold. A hold whose end has passed stays until a claim or a command removes it.
    pub holds: BTreeMap<Vec<u8>, u64>,
    last_token: u64,
    last_id: (u64, u64),
    next_seq: u64,
    lapsed: u64,
    pub counters: Counters,
}

fn next_occurrence(period: u64, anchor: u64, now: u64) -> u64 {
    let mut due = anchor + period;
    while due <= now {
        due += period;
    }
    due
}

/// Returns the first time after `now` that is a whole number of periods after `start`.
fn first_from(start: u64, period: u64, now: u64) -> u64 {
    if start > now { start } else { next_occurrence(period, start, now) }
}

fn precision(rate: Rate) -> u64 {
    if rate.limit <= 100 { 1 } else { rate.window.div_ceil(100) }
}

fn round_up(at: u64, precision: u64) -> u64 {
    at.div_ceil(precision) * precision
}

impl Model {
    fn position(&self, id: &[u8]) -> Option<usize> {
        self.jobs.iter().position(|job| job.id == id)
    }

    /// If the job's lease has expired, counts the expired lease. Must be called before the job changes.
    fn count_expired_lease(&mut self, i: usize, now: u64) {
        if self.jobs[i].place == Where::Claimed && self.jobs[i].time <= now {
            self.lapsed += 1;
            self.counters.missed += u64::from(self.jobs[i].has_missed(now));
            self.jobs[i].failed = Some(self.jobs[i].time);
        }
    }

    fn wait(&mut self, i: usize, now: u64, due: u64) {
        self.jobs[i].place = Where::Waiting(due <= now);
        self.jobs[i].time = due;
    }

    pub fn count(&self, now: u64, state: State) -> u64 {
        self.jobs.iter().filter(|j| j.state(now) == state).count() as u64
    }

    pub fn expired(&self, now: u64) -> u64 {
        let ended = |j: &&ModelJob| j.place == Where::Claimed && j.time <= now;
        self.lapsed + self.jobs.iter().filter(ended).count() as u64
    }

    pub fn missed(&self, now: u64) -> u64 {
        self.counters.missed + self.jobs.iter().filter(|j| j.has_missed(now)).count() as u64
    }

    /// Updates the job after its lease has expired. If this was the last attempt of a recurring job, moves the job to
    /// its next occurrence.
    fn end_expired_lease(&mut self, i: usize, now: u64) {
        let (has_missed, back) = (self.jobs[i].has_missed(now), self.jobs[i].due_again_at());
        let deadline = self.jobs[i].time;
        let is_over = self.jobs[i].place == Where::Claimed && deadline <= now;
        let next = self.next_occurrence(i, deadline);
        self.count_expired_lease(i, now);
        if has_missed {
            self.prepare_occurrence(i, now, next.expect("EVERY"));
        } else if let Some((declared, is_timed)) = if is_over { self.jobs[i].declared.take() } else { None } {
            self.become_declared(i, now, declared, is_timed, back.expect("an attempt is left"));
        }
    }

    /// Whether the job waits for an occurrence after `after`.
    fn is_prepared(&self, i: usize, after: u64) -> bool {
        self.jobs[i].place != Where::Claimed && self.jobs[i].is_between(after) && self.jobs[i].time > after
    }

    /// Returns the first occurrence after `after`, as a waiting declaration or the job itself has it.
    fn next_occurrence(&self, i: usize, after: u64) -> Option<u64> {
        if self.is_prepared(i, after) {
            return Some(self.jobs[i].time);
        }
        let old = self.jobs[i].every;
        match (&self.jobs[i].declared, old) {
            (None, None) => None,
            (None, Some((period, anchor))) => Some(next_occurrence(period, anchor, after)),
            (Some((declared, is_timed)), old) => {
                let period = declared.every.unwrap();
                Some(match old {
                    Some((was, anchor)) if was == period || !is_timed => next_occurrence(period, anchor, after),
                    _ => first_from(declared.due, period, after),
                })
            }
        }
    }

    /// Makes the job wait for its occurrence at `due`.
    fn prepare_occurrence(&mut self, i: usize, now: u64, due: u64) {
        self.jobs[i].attempts = 0;
        if let Some((declared, is_timed)) = self.jobs[i].declared.take() {
            self.become_declared(i, now, declared, is_timed, due);
        }
        if self.jobs[i].next.is_some() {
            self.count_replaced_push();
        }
        self.jobs[i].prepare_occurrence(due);
    }

    /// Makes a job what a declaration says. `due` is the due time of the job.
    fn become_declared(&mut self, i: usize, now: u64, new: Next, is_timed: bool, due: u64) {
        let period = new.every.unwrap();
        let job = &mut self.jobs[i];
        let anchor = match job.every {
            Some((was, anchor)) if was == period || !is_timed => anchor,
            None if !is_timed => due,
            // The first occurrence after the present run is then not before the time of the push.
            _ => {
                if new.due >= period {
                    new.due - period
                } else {
                    new.due
                }
            }
        };
        job.every = Some((period, anchor));
        if job.ttl.map(|(ttl, _)| ttl) != new.ttl {
            job.ttl = new.ttl.map(|ttl| (ttl, due + ttl));
        }
        (job.payload, job.priority, job.max) = (new.payload, new.priority, new.max);
        if job.exhausted() {
            job.attempts = job.max - 1;
        }
        if job.group != new.group {
            job.group = new.group.clone();
            // While the job changes its group, it is in none: the old group may end before the new one begins.
            let job = self.jobs.remove(i);
            self.tidy();
            self.jobs.insert(i, job);
            if !self.ring.contains(&new.group) {
                self.ring.push(new.group.clone());
                self.adopt_units(&new.group, now);
            }
        }
    }

    /// Declares a recurring job.
    pub fn declare(&mut self, now: u64, push: &Push<'_>, is_timed: bool) -> Result<(), ()> {
        let id = push.id.expect("an ID");
        let before = self.clone();
        if self.position(id).is_some_and(|i| self.jobs[i].has_expired(now)) {
            self.expire(now, id);
        }
        let new = Next::of(push, &self.settings);
        let same = self.position(id);
        let state = same.map(|i| self.jobs[i].state(now));
        let Some(i) = same.filter(|_| state != Some(State::Dead)) else {
            let reply = self.push(now, &Push { replace: true, ..*push });
            return reply.map(|_| ()).map_err(|()| *self = before);
        };
        if self.is_declared(i, &new, is_timed, state == Some(State::Claimed)) {
            return Ok(());
        }
        let job = &mut self.jobs[i];
        if state == Some(State::Claimed) {
            match &mut job.next {
                Some(next) if job.every.is_none() => *next = Next { due: next.due, ..new },
                _ => (job.next, job.declared) = (None, Some((new, is_timed))),
            }
            return Ok(());
        }
        if job.place == Where::Claimed {
            self.wait_after_lease(i, now);
        }
        self.jobs[i].next = None;
        let job = &self.jobs[i];
        let is_ready = job.state(now) == State::Ready;
        let due = if is_ready { job.time.min(now) } else { job.time };
        let (old, period) = (job.every, push.every.unwrap());
        if old.is_some_and(|(was, _)| was == period) {
            let (attempts, time) = (job.attempts, job.time);
            let gets_attempt = new.max > 0 && attempts >= new.max;
            self.become_declared(i, now, new, is_timed, if gets_attempt { due } else { time });
            if gets_attempt {
                self.wait(i, now, due);
            }
            return Ok(());
        }
        let is_ahead = !is_ready && job.attempts == 0 && old.is_none_or(|(_, anchor)| anchor == due);
        let last = old.and_then(|(was, anchor)| anchor.checked_sub(was)).filter(|&last| last <= now);
        let due = match (is_ahead, last) {
            (true, _) if is_timed => first_from(new.due, period, now),
            (true, Some(last)) => next_occurrence(period, last, now),
            _ => due,
        };
        self.become_declared(i, now, new, is_timed, due);
        if is_ahead {
            self.jobs[i].count_from(due);
        }
        self.wait(i, now, due);
        Ok(())
    }

    /// Whether a declaration would change nothing. The job is not dead.
    fn is_declared(&self, i: usize, new: &Next, is_timed: bool, is_claimed: bool) -> bool {
        let job = &self.jobs[i];
        let alike = |one: &Next| Next { due: 0, ..one.clone() } == Next { due: 0, ..new.clone() };
        match (&job.declared, &job.next) {
            (Some((declared, was_timed)), _) => {
                let has_period = job.every.is_some_and(|(period, _)| Some(period) == new.every);
                let counts_alike = is_timed == *was_timed && (!is_timed || declared.due == new.due);
                alike(declared) && (has_period || counts_alike)
            }
            (None, Some(next)) => is_claimed && job.every.is_none() && alike(next),
            (None, None) => alike(&Next {
                payload: job.payload.clone(),
                group: job.group.clone(),
                due: 0,
                priority: job.priority,
                max: job.max,
                every: job.every.map(|(period, _)| period),
                ttl: job.ttl.map(|(ttl, _)| ttl),
            }),
        }
    }

    /// Returns when a job whose lease has expired is due, after a waiting declaration.
    fn due_after(&self, i: usize, now: u64) -> u64 {
        let job = &self.jobs[i];
        if job.has_missed(now) { self.next_occurrence(i, job.time).unwrap() } else { job.due(now) }
    }

    pub fn progress(&mut self, now: u64, id: &[u8], token: u64, text: &[u8]) -> bool {
        let Some(i) = self.find_by_token(id, token) else { return false };
        let job = &mut self.jobs[i];
        (job.progress, job.progressed) = (text.to_vec(), if text.is_empty() { 0 } else { now });
        true
    }

    /// Removes a job. If a push with AGAIN waits for the end of the job's run, the push becomes a job.
    fn remove_or_replace(&mut self, i: usize, now: u64) {
        let next = if self.jobs[i].every.is_some() { self.next_occurrence(i, now) } else { None };
        let mut job = self.jobs.remove(i);
        if let Some((declared, _)) = job.declared.take() {
            job.next = Some(Next { due: next.unwrap_or(declared.due), ..declared });
        }
        let group = job.next.as_ref().map(|next| next.group.clone());
        let held_until = group.and_then(|group| self.holds.get(&group).copied().map(|until| (group, until)));
        self.tidy();
        if let Some(next) = job.next {
            self.clear_unit_logs(2, now);
            self.add_job(now, job.id, Next { due: next.due.max(now), ..next });
            self.holds.extend(held_until);
        }
    }

    /// Does the upkeep's work for one job: carries out a declaration that waits behind an expired lease, or calls
    /// [`expire`](Self::expire).
    pub fn keep_up(&mut self, now: u64, id: &[u8]) {
        let i = self.position(id).expect("a job");
        if self.jobs[i].declared.is_some() && self.jobs[i].state(now) != State::Dead {
            self.wait_after_lease(i, now);
        } else {
            self.expire(now, id);
        }
    }

    /// If a push with AGAIN waits behind a dead letter, the push replaces the dead
    /// letter. If a recurring job has expired, moves it to its next occurrence. If any other job has expired, drops it.
    pub fn expire(&mut self, now: u64, id: &[u8]) {
        let i = self.position(id).expect("a job");
        assert!(self.jobs[i].upkeep().is_some_and(|at| at <= now));
        if self.jobs[i].state(now) == State::Dead {
            self.counters.replaced += 1;
            self.count_expired_lease(i, now);
            return self.remove_or_replace(i, now);
        }
        assert!(self.jobs[i].has_expired(now));
        self.counters.expired += 1;
        if self.jobs[i].every.is_none() {
            self.count_expired_lease(i, now);
            return self.remove_or_replace(i, now);
        }
        self.end_expired_lease(i, now);
        self.counters.recurred += 1;
        self.wait_for_occurrence(i, now);
    }

    /// Makes a job wait whose lease has expired. If a declaration waits behind it, carries it out.
    fn wait_after_lease(&mut self, i: usize, now: u64) {
        let (back, has_missed) = (self.due_after(i, now), self.jobs[i].has_missed(now));
        self.end_expired_lease(i, now);
        if has_missed && self.settings.ordered {
            self.jobs[i].seq = self.next_seq;
            self.next_seq += 1;
        }
        self.wait(i, now, back);
    }

    /// Counts a push with AGAIN that adds no job.
    fn count_replaced_push(&mut self) {
        self.counters.pushed += 1;
        self.counters.replaced += 1;
    }

    /// Makes a recurring job wait for its next occurrence.
    fn wait_for_occurrence(&mut self, i: usize, now: u64) {
        let due = self.next_occurrence(i, now).expect("EVERY");
        self.prepare_occurrence(i, now, due);
        let job = &mut self.jobs[i];
        (job.token, job.moved) = (0, now);
        if self.settings.ordered {
            job.seq = self.next_seq;
            self.next_seq += 1;
        }
        self.wait(i, now, due);
    }

    /// Whether the upkeep must call `expire` for a job.
    pub fn has_overdue(&self, now: u64) -> bool {
        self.jobs.iter().filter_map(|j| j.upkeep()).any(|at| at <= now)
    }

    /// Returns the number of jobs that are not dead, plus the number of pushes that wait behind a job.
    fn alive(&self, now: u64) -> u64 {
        let alive = self.jobs.iter().filter(|j| j.state(now) != State::Dead).count();
        (alive + self.jobs.iter().filter(|j| j.next.is_some()).count()) as u64
    }

    pub fn peek(&self, now: u64, state: State) -> Vec<&ModelJob> {
        let mut jobs: Vec<_> = self.jobs.iter().filter(|j| j.state(now) == state).collect();
        let aging = i128::from(self.settings.aging);
        let due = |j: &ModelJob| j.due(now);
        jobs.sort_by_key(|j| match state {
            State::Ready if self.settings.ordered => (0, 0, 0, j.seq),
            State::Ready if aging == 0 => (i128::from(j.priority), due(j), 0, j.seq),
            State::Ready => {
                let rank = i128::from(due(j)) + i128::from(j.priority) * aging;
                (rank, due(j), 0, j.seq)
            }
            _ => (i128::from(due(j)), 0, j.priority, j.seq),
        });
        if state == State::Ready {
            // The groups take turns.
            let round = |i: usize| jobs[..i].iter().filter(|j| j.group == jobs[i].group).count();
            let place = |i: usize| self.ring.iter().position(|group| *group == jobs[i].group);
            let mut order: Vec<_> = (0..jobs.len()).map(|i| (round(i), place(i), i)).collect();
            order.sort_unstable();
            jobs = order.into_iter().map(|(_, _, i)| jobs[i]).collect();
        }
        jobs
    }

    /// Returns the job that a claim would get from a group, or `None` if the claim would get none.
    fn next_of(&self, group: &[u8], now: u64) -> Option<&ModelJob> {
        self.next_but(group, now, |job| job.has_expired(now))
    }

    /// Does the same, but takes no notice of some waiting jobs.
    fn next_but(&self, group: &[u8], now: u64, ignored: impl Fn(&ModelJob) -> bool) -> Option<&ModelJob> {
        let s = &self.settings;
        let jobs: Vec<_> = self.jobs.iter().filter(|j| j.group == group).collect();
        let claimed = jobs.iter().filter(|j| j.state(now) == State::Claimed).count() as u64;
        let out = self.group_units.iter().filter(|(name, back)| name == group && *back > now).count() as u64;
        if s.group_concurrency > 0 && claimed >= s.group_concurrency
            || s.group_rate.is_some_and(|rate| out >= rate.limit)
            || self.is_held(group, now)
        {
            return None;
        }
        if s.ordered {
            let waiting = jobs.into_iter().filter(|j| j.state(now) != State::Dead && !ignored(j));
            let (between, others): (Vec<_>, Vec<_>) = waiting.partition(|j| j.is_between(now));
            let is_ready = |j: &&ModelJob| j.state(now) == State::Ready;
            let head = others.into_iter().min_by_key(|j| j.seq);
            let between = between.into_iter().filter(is_ready).min_by_key(|j| j.seq);
            let first = match head {
                Some(head) if head.claimed.is_some() => Some(head),
                _ => head.into_iter().chain(between).min_by_key(|j| j.seq),
            };
            return first.filter(|j| claimed == 0 && is_ready(j));
        }
        self.peek(now, State::Ready).into_iter().find(|j| j.group == group && !ignored(j))
    }

    fn is_held(&self, group: &[u8], now: u64) -> bool {
        self.holds.get(group).is_some_and(|&until| until > now)
    }

    fn next(&self, now: u64) -> Option<&ModelJob> {
        self.ring.iter().find_map(|group| self.next_of(group, now))
    }

    /// Removes groups without jobs from `ring` and `holds`. If the queue no longer uses groups, clears `group_units`.
    fn tidy(&mut self) {
        let Self { jobs, ring, holds, .. } = self;
        ring.retain(|group| jobs.iter().any(|j| j.group == *group));
        holds.retain(|group, _| ring.contains(group));
        let is_used = self.settings.concern_groups() || !self.holds.is_empty();
        if !is_used && self.names().iter().all(|name| name.is_empty()) {
            self.group_units.clear();
        }
    }

    /// Returns the groups that have jobs or recorded units of GROUPRATE.
    fn names(&self) -> BTreeSet<&[u8]> {
        let with_units = self.group_units.iter().map(|(name, _)| name.as_slice());
        self.ring.iter().map(Vec::as_slice).chain(with_units).collect()
    }

    /// Finds the group that is the first to have all its units available again. Returns the time at which they are
    /// available, and the name of the group.
    fn first_units_back(&self) -> Option<(u64, Vec<u8>)> {
        let last =
            |group: &[u8]| self.group_units.iter().filter(|(name, _)| name == group).map(|(_, back)| *back).max();
        self.names().into_iter().filter_map(|group| Some((last(group)?, group.to_vec()))).min()
    }

    /// Searches for groups whose units are all available again. Clears the units of at most `most` such groups.
    fn clear_unit_logs(&mut self, most: usize, now: u64) {
        for _ in 0..most {
            let Some((_, group)) = self.first_units_back().filter(|(back, _)| *back <= now) else { return };
            self.group_units.retain(|(name, _)| *name != group);
            self.tidy();
        }
    }

    /// Adapts the units of the group to the present GROUPRATE.
    fn adopt_units(&mut self, group: &[u8], now: u64) {
        let of_group = self.group_units.iter_mut().filter(|(name, _)| name == group);
        match self.settings.group_rate {
            None => self.group_units.retain(|(name, _)| name != group),
            Some(rate) => {
                of_group.for_each(|(_, back)| *back = round_up(*back, precision(rate)));
                self.settle_group(group, rate, now);
            }
        }
    }

    fn settle_group(&mut self, group: &[u8], rate: Rate, now: u64) {
        let latest = round_up(now + rate.window, precision(rate));
        self.group_units.retain(|(name, back)| name != group || *back > now);
        let of_group = self.group_units.iter_mut().filter(|(name, _)| name == group);
        of_group.for_each(|(_, back)| *back = (*back).min(latest));
    }

    /// Returns for each group: its name; its numbers of ready, delayed and claimed jobs; the end of its hold.
    pub fn groups(&self, now: u64) -> Vec<(&[u8], [u64; 3], Option<u64>)> {
        let count =
            |group: &[u8], state| self.jobs.iter().filter(|j| j.group == group && j.state(now) == state).count() as u64;
        let counts = |group| [State::Ready, State::Delayed, State::Claimed].map(|state| count(group, state));
        let held = |group| self.holds.get(group).copied().filter(|&until| until > now);
        self.names().into_iter().map(|group| (group, counts(group), held(group))).collect()
    }

    /// Holds a group: no client can claim its jobs before `until`. 0 releases the group. Returns whether the group has
    /// a job.
    pub fn hold(&mut self, group: &[u8], until: u64) -> bool {
        if until > 0 && self.ring.iter().any(|other| other == group) {
            self.holds.insert(group.to_vec(), until);
        } else {
            self.holds.remove(group);
        }
        self.tidy();
        self.ring.iter().any(|other| other == group)
    }

    pub fn group_of(&self, id: &[u8]) -> Vec<u8> {
        self.position(id).map_or(Vec::new(), |i| self.jobs[i].group.clone())
    }

    pub fn hold_longer(&mut self, group: &[u8], until: u64) {
        self.hold(group, until.max(self.holds.get(group).copied().unwrap_or(0)));
    }

    pub fn has_ttls(&self) -> bool {
        self.jobs.iter().any(|job| job.ttl.is_some())
    }

    pub fn claimable(&self, now: u64) -> u64 {
        let s = &self.settings;
        let mut most = self.count(now, State::Ready);
        if s.paused || self.next(now).is_none() {
            most = 0;
        }
        if s.concurrency > 0 {
            most = most.min(s.concurrency.saturating_sub(self.count(now, State::Claimed)));
        }
        if let Some(rate) = s.rate {
            let held = self.units.iter().filter(|&&back| back > now).count() as u64;
            most = most.min(rate.limit.saturating_sub(held));
        }
        most
    }

    /// Lists all times at which a claim can become possible, in order.
    fn moments(&self) -> Vec<u64> {
        let jobs =
            self.jobs.iter().flat_map(|j| [j.time, j.due_again_at().unwrap_or(0), j.expires(u64::MAX).unwrap_or(0)]);
        let of_groups = self.group_units.iter().map(|(_, back)| *back);
        let of_groups = of_groups.chain(self.holds.values().copied());
        let mut moments: Vec<u64> = jobs.chain(self.units.iter().copied()).chain(of_groups).collect();
        moments.sort_unstable();
        moments
    }

    /// Returns since when a job has waited for a claim.
    pub fn waits_from(&self, now: u64) -> Option<u64> {
        let ready: Vec<_> = self.peek(now, State::Ready);
        let times = self.ring.iter().filter(|_| !self.settings.paused).filter_map(|group| {
            let due = ready.iter().filter(|j| j.group == *group).map(|j| j.due(now)).min()?;
            let mut moments = std::iter::once(0).chain(self.moments());
            Some(due.max(moments.find(|&t| self.next_but(group, t, |_| false).is_some())?))
        });
        times.min().filter(|&time| time <= now)
    }

    pub fn next_claimable(&self, now: u64) -> Option<u64> {
        let moments = std::iter::once(now).chain(self.moments().into_iter().filter(|&t| t > now));
        { moments }.find(|&t| self.claimable(t) > 0)
    }

    /// Whether a queue that was just created would differ only in its counters.
    pub fn is_unused(&self) -> bool {
        let (units, of_groups) = (self.units.is_empty(), self.group_units.is_empty());
        self.jobs.is_empty() && units && of_groups && self.settings == Settings::default()
    }

    /// Returns when the upkeep must act next. `announced_until`: the upkeep has sent `zq.dead` for all jobs that became
    /// dead letters until this time.
    pub fn next_upkeep(&self, now: u64, announced_until: u64) -> Option<u64> {
        let Settings { deadlen, deadttl, group_rate, .. } = self.settings;
        let dies = |j: &&ModelJob| j.place == Where::Dead || j.state(u64::MAX) == State::Dead;
        let new_dead_letters: Vec<u64> = self.jobs.iter().filter(dies).map(|j| j.time).collect();
        let by_lease = self.jobs.iter().filter(dies).filter(|j| j.place == Where::Claimed).map(|j| j.time);
        let crowded = deadlen > 0 && self.count(now, State::Dead) > deadlen;
        let too_old = new_dead_letters.into_iter().filter(|_| deadttl > 0).map(|died| died + deadttl);
        let longest = self.group_units.iter().map(|(_, back)| *back).max().unwrap_or(0);
        let is_settled = group_rate.is_some_and(|rate| longest <= round_up(now + rate.window, precision(rate)));
        let cleared = self.first_units_back().map(|(back, _)| if is_settled { back + CLEARED_AFTER } else { now });
        let expired = self.jobs.iter().filter_map(|j| j.upkeep()).min();
        let new_dead_letters =
            too_old.chain(by_lease.filter(|&died| died > announced_until)).chain(crowded.then_some(now));
        new_dead_letters.chain(cleared).chain(expired).min()
    }

    pub fn push(&mut self, now: u64, push: &Push<'_>) -> Result<Option<Vec<u8>>, ()> {
        let found = push.id.filter(|id| self.position(id).is_some_and(|i| self.jobs[i].has_expired(now)));
        let before = found.map(|_| self.clone());
        found.into_iter().for_each(|id| self.expire(now, id));
        let same = push.id.and_then(|id| self.position(id));
        if same.is_some() && !push.replace && !push.again {
            return Ok(None);
        }
        let state = same.map(|i| self.jobs[i].state(now));
        let has_next = same.is_some_and(|i| self.jobs[i].next.is_some());
        let grows = match state {
            None => true,
            Some(State::Ready | State::Delayed) => false,
            Some(State::Claimed) => push.again && !has_next && self.jobs[same.unwrap()].declared.is_none(),
            Some(State::Dead) => !has_next,
        };
        if self.settings.maxlen > 0 && grows && self.alive(now) >= self.settings.maxlen {
            // A refused push changes nothing.
            before.into_iter().for_each(|before| *self = before);
            return Err(());
        }
        match (same, state) {
            (Some(i), Some(State::Claimed)) if push.again && self.jobs[i].declared.is_some() => {
                let (declared, _) = self.jobs[i].declared.as_mut().expect("a declaration");
                (declared.payload, declared.ttl) = (push.payload.to_vec(), push.ttl);
                self.count_replaced_push();
                return Ok(push.id.map(<[u8]>::to_vec));
            }
            (Some(i), Some(State::Claimed)) if push.again => {
                if has_next {
                    self.count_replaced_push();
                }
                self.jobs[i].next = Some(Next::of(push, &self.settings));
                return Ok(push.id.map(<[u8]>::to_vec));
            }
            (Some(i), Some(State::Ready | State::Delayed)) if push.again => {
                self.count_replaced_push();
                self.push_again(i, now, push);
                return Ok(push.id.map(<[u8]>::to_vec));
            }
            _ => {}
        }
        // The queue clears the logs first, while the group still has the old job.
        self.clear_unit_logs(2, now);
        if let Some(i) = same {
            self.counters.replaced += 1;
            self.count_revoked(i, now);
            self.count_expired_lease(i, now);
            self.jobs.remove(i);
        }
        let held_until = same.and_then(|_| self.holds.get(push.group).copied());
        self.tidy();
        let id = match push.id {
            Some(id) => id.to_vec(),
            None => loop {
                let (ms, seq) = self.last_id;
                self.last_id = if now > ms { (now, 0) } else { (ms, seq + 1) };
                let id = format!("{}-{}", self.last_id.0, self.last_id.1).into_bytes();
                if self.position(&id).is_none() {
                    break id;
                }
            },
        };
        self.add_job(now, id.clone(), Next::of(push, &self.settings));
        self.holds.extend(held_until.map(|until| (push.group.to_vec(), until)));
        Ok(Some(id))
    }

    /// Replaces the payload and the TTL of a waiting job with those of a push.
    fn push_again(&mut self, i: usize, now: u64, push: &Push<'_>) {
        let (due, has_missed) = (self.due_after(i, now), self.jobs[i].has_missed(now));
        self.end_expired_lease(i, now);
        let job = &mut self.jobs[i];
        (job.next, job.token, job.payload) = (None, 0, push.payload.to_vec());
        (job.progress, job.progressed) = (Vec::new(), 0);
        job.ttl = push.ttl.map(|ttl| (ttl, due.max(push.due) + ttl));
        if has_missed && self.settings.ordered {
            job.seq = self.next_seq;
            self.next_seq += 1;
        }
        if job.place == Where::Claimed {
            self.wait(i, now, due);
        }
    }

    /// Adds a job. Its ID must be new.
    fn add_job(&mut self, now: u64, id: Vec<u8>, push: Next) {
        self.counters.pushed += 1;
        self.jobs.push(ModelJob {
            id,
            payload: push.payload,
            place: Where::Waiting(push.due <= now),
            time: push.due,
            priority: push.priority,
            attempts: 0,
            max: push.max,
            every: push.every.map(|period| (period, push.due)),
            ttl: push.ttl.map(|ttl| (ttl, push.due + ttl)),
            next: None,
            wait: 0,
            seq: self.next_seq,
            token: 0,
            created: now,
            claimed: None,
            failed: None,
            moved: 0,
            worker: Vec::new(),
            error: Vec::new(),
            group: push.group.clone(),
            declared: None,
            progress: Vec::new(),
            progressed: 0,
        });
        if !self.ring.contains(&push.group) {
            self.ring.push(push.group.clone());
            self.adopt_units(&push.group, now);
        }
        self.next_seq += 1;
    }

    fn settle_rates(&mut self, now: u64) {
        if let Some(rate) = self.settings.rate {
            let latest = round_up(now + rate.window, precision(rate));
            self.units.retain(|&back| back > now);
            self.units.iter_mut().for_each(|u| *u = (*u).min(latest));
        }
    }

    /// Counts a claim that ends because its job is replaced or cancelled.
    fn count_revoked(&mut self, i: usize, now: u64) {
        self.counters.revoked += u64::from(self.jobs[i].state(now) == State::Claimed);
    }

    fn count_late(&mut self, i: usize, now: u64) {
        self.counters.late += u64::from(self.jobs[i].state(now) != State::Claimed);
    }

    pub fn claim(&mut self, now: u64, deadline: u64, count: u64, worker: &[u8]) -> Vec<Got> {
        let mut got = Vec::new();
        // A claim that gets no job changes nothing, unless units stay in use for longer than a window.
        let too_long = |rate: Rate| round_up(now + rate.window, precision(rate));
        let held_too_long = self.settings.rate.is_some_and(|rate| self.units.iter().any(|&u| u > too_long(rate)));
        for _ in 0..self.claimable(now).min(count) {
            while let Some(job) = self.next(now).filter(|job| job.declared.is_some()) {
                let i = self.position(&job.id).unwrap();
                self.wait_after_lease(i, now);
            }
            let Some(job) = self.next(now) else { break };
            let (id, group) = (job.id.clone(), job.group.clone());
            let i = self.position(&id).unwrap();
            self.end_expired_lease(i, now);
            self.clear_unit_logs(2, now);
            self.ring.retain(|other| *other != group);
            self.ring.push(group.clone());
            if let Some(rate) = self.settings.group_rate {
                self.settle_group(&group, rate, now);
                self.group_units.push((group.clone(), round_up(now + rate.window, precision(rate))));
            }
            self.holds.remove(&group);
            self.tidy();
            self.settle_rates(now);
            if let Some(rate) = self.settings.rate {
                self.units.push(round_up(now + rate.window, precision(rate)));
            }
            self.last_token = (now * 1000).max(self.last_token + 1);
            let job = &mut self.jobs[i];
            job.place = Where::Claimed;
            job.token = self.last_token;
            job.attempts += 1;
            job.wait = if job.exhausted() { 0 } else { self.settings.jittered_backoff(job.attempts, job.token) };
            job.time = deadline;
            (job.claimed, job.worker, job.moved) = (Some(now), worker.to_vec(), 0);
            self.counters.claimed += 1;
            got.push(Got { id, payload: job.payload.clone(), token: job.token, attempt: job.attempts, deadline });
        }
        let of_groups = self.settings.group_rate.map(|rate| (rate, round_up(now + rate.window, precision(rate))));
        let late: Vec<_> = of_groups.map_or(Vec::new(), |(_, latest)| {
            self.group_units.iter().filter(|(_, back)| *back > latest).map(|(name, _)| name.clone()).collect()
        });
        // A claim that got a job has already called `settle_rates`.
        if held_too_long && got.is_empty() || !late.is_empty() {
            self.settle_rates(now);
            // If GROUPRATE is off, the units of an earlier GROUPRATE are cleared.
            self.clear_unit_logs(64, if of_groups.is_some() { now } else { u64::MAX });
        }
        for group in late {
            self.settle_group(&group, of_groups.unwrap().0, now);
        }
        got
    }

    fn find_by_token(&self, id: &[u8], token: u64) -> Option<usize> {
        let i = self.position(id)?;
        (token > 0 && self.jobs[i].token == token).then_some(i)
    }

    pub fn ack(&mut self, now: u64, id: &[u8], token: u64) -> bool {
        let Some(i) = self.find_by_token(id, token) else {
            return false;
        };
        self.counters.acked += 1;
        self.count_late(i, now);
        self.count_expired_lease(i, now);
        if self.next_occurrence(i, now).is_none() {
            self.remove_or_replace(i, now);
            return true;
        }
        (self.jobs[i].progress, self.jobs[i].progressed) = (Vec::new(), 0);
        self.counters.recurred += 1;
        self.wait_for_occurrence(i, now);
        true
    }

    pub fn nack(
        &mut self,
        now: u64,
        id: &[u8],
        token: u64,
        fate: Fate,
        options: NackOptions<'_>,
    ) -> Option<Option<u64>> {
        let i = self.find_by_token(id, token)?;
        self.counters.nacked += 1;
        self.count_late(i, now);
        let is_prepared = self.is_prepared(i, now);
        let is_counted = self.jobs[i].has_missed(now) || is_prepared;
        let next = self.next_occurrence(i, now);
        self.count_expired_lease(i, now);
        let s = &self.settings;
        let job = &mut self.jobs[i];
        job.token = 0;
        let wait = s.jittered_backoff(job.attempts, token);
        if options.is_free {
            job.attempts = job.attempts.saturating_sub(1);
            job.moved = now;
        } else {
            job.failed = Some(now);
        }
        if !options.error.is_empty() {
            job.error = options.error.to_vec();
        }
        let due = match fate {
            Fate::At(due) => due,
            Fate::Default => now + wait,
            Fate::Dead => now,
        };
        match job.every {
            _ if fate == Fate::Dead => {}
            _ if !job.exhausted() && (options.is_free || !is_prepared) => {
                if let Some((declared, is_timed)) = job.declared.take() {
                    self.become_declared(i, now, declared, is_timed, due);
                }
                self.wait(i, now, due);
                return Some(Some(due));
            }
            None => {}
            Some(_) => {
                let due = next.expect("EVERY");
                self.prepare_occurrence(i, now, due);
                self.counters.missed += u64::from(!is_counted);
                if self.settings.ordered {
                    self.jobs[i].seq = self.next_seq;
                    self.next_seq += 1;
                }
                self.wait(i, now, due);
                return Some(Some(due));
            }
        }
        let job = &mut self.jobs[i];
        (job.place, job.time) = (Where::Dead, now);
        if job.next.is_some() || job.declared.is_some() {
            self.counters.replaced += 1;
            self.remove_or_replace(i, now);
        }
        Some(None)
    }

    pub fn extend(&mut self, now: u64, id: &[u8], token: u64, deadline: u64) -> bool {
        let i = self.find_by_token(id, token);
        let Some(i) = i.filter(|&i| self.jobs[i].state(now) == State::Claimed) else {
            return false;
        };
        self.jobs[i].time = deadline;
        true
    }

    pub fn cancel(&mut self, now: u64, id: &[u8]) -> bool {
        let Some(i) = self.position(id) else {
            return false;
        };
        self.counters.cancelled += 1;
        self.count_revoked(i, now);
        self.jobs[i].declared = None;
        self.count_expired_lease(i, now);
        self.remove_or_replace(i, now);
        true
    }

    pub fn reschedule(&mut self, now: u64, id: &[u8], due: Option<u64>, priority: Option<i32>) -> bool {
        let Some(i) = self.position(id) else {
            return false;
        };
        if matches!(self.jobs[i].state(now), State::Claimed | State::Dead) {
            return false;
        }
        let (back, after) = (self.jobs[i].due(now), self.due_after(i, now));
        let has_missed = self.jobs[i].has_missed(now);
        let counts_from = |due| {
            let job = &self.jobs[i];
            let has_period = has_missed || job.every.is_none_or(|(_, anchor)| anchor == due);
            has_period && (has_missed || job.ttl.is_none_or(|(ttl, expires)| expires == due + ttl))
        };
        if due.is_none_or(|due| due == back && counts_from(due)) && priority.is_none_or(|p| p == self.jobs[i].priority)
        {
            return true;
        }
        self.end_expired_lease(i, now);
        let job = &mut self.jobs[i];
        if let Some(priority) = priority {
            job.priority = priority;
        }
        if has_missed && self.settings.ordered {
            job.seq = self.next_seq;
            self.next_seq += 1;
        }
        if let Some(due) = due {
            job.count_from(due);
            job.moved = now;
            self.wait(i, now, due);
        } else if job.place == Where::Claimed {
            self.wait(i, now, after);
        }
        true
    }

    pub fn redrive(&mut self, now: u64, group: Option<&[u8]>, count: u64) -> u64 {
        let dead = self.peek(now, State::Dead);
        let of_group = dead.into_iter().filter(|j| group.is_none_or(|group| j.group == group));
        let ids: Vec<_> = of_group.map(|j| j.id.clone()).collect();
        let room = match self.settings.maxlen {
            0 => u64::MAX,
            most => most.saturating_sub(self.alive(now)),
        };
        let count = count.min(ids.len() as u64).min(room);
        for id in ids.into_iter().take(count as usize) {
            let i = self.position(&id).unwrap();
            self.revive(i, now);
        }
        count
    }

    pub fn redrive_one(&mut self, now: u64, id: &[u8]) -> bool {
        let Some(i) = self.position(id).filter(|&i| self.jobs[i].state(now) == State::Dead) else {
            return false;
        };
        if self.settings.maxlen > 0 && self.alive(now) >= self.settings.maxlen {
            return false;
        }
        self.revive(i, now);
        true
    }

    fn revive(&mut self, i: usize, now: u64) {
        self.counters.redriven += 1;
        self.count_expired_lease(i, now);
        let job = &mut self.jobs[i];
        (job.attempts, job.token) = (0, 0);
        job.ttl = job.ttl.map(|(ttl, _)| (ttl, now + ttl));
        if let Some((declared, is_timed)) = job.declared.take() {
            self.become_declared(i, now, declared, is_timed, now);
        }
        self.wait(i, now, now);
    }

    pub fn clean(&mut self, now: u64, which: JobFilter<'_>, older: Option<u64>, count: u64) -> u64 {
        let mut cleaned = 0;
        // Pushes behind removed jobs become jobs, which may have to be removed, too.
        while cleaned < count {
            match self.clean_some(now, which, older, count - cleaned) {
                0 => break,
                some => cleaned += some,
            }
        }
        cleaned
    }

    fn clean_some(&mut self, now: u64, which: JobFilter<'_>, older: Option<u64>, count: u64) -> u64 {
        let JobFilter { state, group } = which;
        let mut jobs: Vec<_> = self.jobs.iter().filter(|j| j.state(now) == state).cloned().collect();
        jobs.retain(|j| group.is_none_or(|group| j.group == group));
        jobs.retain(|j| state == State::Dead || j.every.is_none());
        jobs.sort_by_key(|j| (j.due(now), j.priority, j.seq));
        if let Some(older) = older {
            jobs.retain(|j| j.since(now) + older <= now);
        }
        jobs.truncate(count as usize);
        for job in &jobs {
            let i = self.position(&job.id).unwrap();
            self.count_expired_lease(i, now);
            self.counters.cleaned += 1;
            self.remove_or_replace(i, now);
        }
        jobs.len() as u64
    }

    /// Drops dead letters that DEADLEN and DEADTTL do not allow.
    pub fn drop_dead(&mut self, now: u64) {
        loop {
            let Settings { deadlen, deadttl, .. } = self.settings;
            let dead: Vec<_> = self.peek(now, State::Dead).into_iter().map(|j| (j.id.clone(), j.time)).collect();
            let Some((id, died)) = dead.first() else { return };
            let goes = deadlen > 0 && dead.len() as u64 > deadlen || deadttl > 0 && died + deadttl <= now;
            if !goes {
                return;
            }
            let i = self.position(id).unwrap();
            self.count_expired_lease(i, now);
            self.counters.dropped += 1;
            self.remove_or_replace(i, now);
        }
    }

    pub fn configure(&mut self, now: u64, settings: Settings) -> bool {
        let changed = settings != self.settings;
        let old = std::mem::replace(&mut self.settings, settings);
        match settings.rate {
            None => self.units.clear(),
            Some(rate) if old.rate != settings.rate => {
                let rounded = |u: &mut u64| *u = round_up(*u, precision(rate));
                self.units.iter_mut().for_each(rounded);
                self.settle_rates(now);
            }
            Some(_) => {}
        }
        if old.group_rate != settings.group_rate {
            for group in self.ring.clone() {
                self.adopt_units(&group, now);
            }
        }
        self.tidy();
        changed
    }
}
