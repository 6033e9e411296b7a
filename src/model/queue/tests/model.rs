//! The contract again, as simply as can be: one vector, linear scans, `Vec::sort`.

use super::super::{Nack, Push, Rate, Settings, State};
use super::Got;

#[derive(Clone, Debug, PartialEq)]
enum Where {
    /// `true`: due by command, whatever the clock says.
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
    seq: u64,
    token: u64,
}

impl ModelJob {
    fn spent(&self) -> bool {
        self.max > 0 && self.attempts >= self.max
    }

    pub fn state(&self, now: u64) -> State {
        match self.place {
            Where::Dead => State::Dead,
            Where::Waiting(true) => State::Ready,
            Where::Waiting(false) if self.time <= now => State::Ready,
            Where::Waiting(false) => State::Delayed,
            Where::Claimed if self.time > now => State::Claimed,
            Where::Claimed if self.spent() => State::Dead,
            Where::Claimed => State::Ready,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub jobs: Vec<ModelJob>,
    pub settings: Settings,
    /// When each unit taken comes back.
    units: Vec<u64>,
    last_token: u64,
    last_id: (u64, u64),
    next_seq: u64,
    lapsed: u64,
}

fn grid(rate: Rate) -> u64 {
    if rate.limit <= 100 { 1 } else { rate.window.div_ceil(100) }
}

fn round_up(at: u64, grid: u64) -> u64 {
    at.div_ceil(grid) * grid
}

impl Model {
    fn position(&self, id: &[u8]) -> Option<usize> {
        self.jobs.iter().position(|job| job.id == id)
    }

    /// The job leaves a place: its lease counts as expired if it has ended.
    fn leave(&mut self, i: usize, now: u64) {
        if self.jobs[i].place == Where::Claimed && self.jobs[i].time <= now {
            self.lapsed += 1;
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

    pub fn peek(&self, now: u64, state: State) -> Vec<&ModelJob> {
        let mut jobs: Vec<_> = self.jobs.iter().filter(|j| j.state(now) == state).collect();
        let aging = i128::from(self.settings.aging);
        jobs.sort_by_key(|j| match state {
            State::Ready if aging == 0 => (i128::from(j.priority), j.time, 0, j.seq),
            State::Ready => {
                let rank = i128::from(j.time) + i128::from(j.priority) * aging;
                (rank, j.time, 0, j.seq)
            }
            _ => (i128::from(j.time), 0, j.priority, j.seq),
        });
        jobs
    }

    pub fn claimable(&self, now: u64) -> u64 {
        let s = &self.settings;
        let mut most = self.count(now, State::Ready);
        if s.paused {
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

    pub fn next_wake(&self, now: u64) -> Option<u64> {
        let jobs = self.jobs.iter().map(|j| j.time);
        let mut moments: Vec<u64> = jobs.chain(self.units.iter().copied()).collect();
        moments.retain(|&t| t > now);
        moments.push(now);
        moments.sort_unstable();
        moments.into_iter().find(|&t| self.claimable(t) > 0)
    }

    pub fn push(&mut self, now: u64, push: &Push<'_>) -> Result<Option<Vec<u8>>, ()> {
        let same = push.id.and_then(|id| self.position(id));
        if same.is_some() && !push.replace {
            return Ok(None);
        }
        let mut left = self.jobs.clone();
        if let Some(i) = same {
            left.remove(i);
        }
        let alive = left.iter().filter(|j| j.state(now) != State::Dead).count() as u64;
        let maxlen = self.settings.maxlen;
        let grows = same.is_none_or(|i| self.jobs[i].state(now) == State::Dead);
        if maxlen > 0 && grows && alive >= maxlen {
            return Err(());
        }
        if let Some(i) = same {
            self.leave(i, now);
        }
        self.jobs = left;
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
        self.jobs.push(ModelJob {
            id: id.clone(),
            payload: push.payload.to_vec(),
            place: Where::Waiting(push.due <= now),
            time: push.due,
            priority: push.priority,
            attempts: 0,
            max: push.attempts.unwrap_or(self.settings.attempts),
            every: push.every.map(|period| (period, push.due)),
            seq: self.next_seq,
            token: 0,
        });
        self.next_seq += 1;
        Ok(Some(id))
    }

    fn settle(&mut self, now: u64) {
        if let Some(rate) = self.settings.rate {
            let horizon = round_up(now + rate.window, grid(rate));
            self.units.retain(|&back| back > now);
            self.units.iter_mut().for_each(|u| *u = (*u).min(horizon));
        }
    }

    pub fn claim(&mut self, now: u64, deadline: u64, count: u64) -> Vec<Got> {
        let mut got = Vec::new();
        // An empty claim writes nothing, unless units are held too long.
        let too_long = |rate: Rate| round_up(now + rate.window, grid(rate));
        let held_too_long = self.settings.rate.is_some_and(|rate| self.units.iter().any(|&u| u > too_long(rate)));
        for _ in 0..self.claimable(now).min(count) {
            let id = self.peek(now, State::Ready)[0].id.clone();
            let i = self.position(&id).unwrap();
            self.leave(i, now);
            self.settle(now);
            if let Some(rate) = self.settings.rate {
                self.units.push(round_up(now + rate.window, grid(rate)));
            }
            self.last_token = match self.last_token {
                0 => (now * 1000).max(1),
                last => last + 1,
            };
            let job = &mut self.jobs[i];
            job.place = Where::Claimed;
            job.token = self.last_token;
            job.attempts += 1;
            job.time = deadline;
            got.push(Got { id, payload: job.payload.clone(), token: job.token, attempt: job.attempts, deadline });
        }
        if held_too_long {
            self.settle(now);
        }
        got
    }

    fn holder(&self, id: &[u8], token: u64) -> Option<usize> {
        let i = self.position(id)?;
        (token > 0 && self.jobs[i].token == token).then_some(i)
    }

    pub fn ack(&mut self, now: u64, id: &[u8], token: u64) -> bool {
        let Some(i) = self.holder(id, token) else {
            return false;
        };
        self.leave(i, now);
        let job = &mut self.jobs[i];
        let Some((period, anchor)) = job.every else {
            self.jobs.remove(i);
            return true;
        };
        let mut due = anchor + period;
        while due <= now {
            due += period;
        }
        (job.every, job.attempts, job.token) = (Some((period, due)), 0, 0);
        self.wait(i, now, due);
        true
    }

    pub fn nack(&mut self, now: u64, id: &[u8], token: u64, nack: Nack) -> Option<Option<u64>> {
        let i = self.holder(id, token)?;
        self.leave(i, now);
        let s = &self.settings;
        let job = &mut self.jobs[i];
        job.token = 0;
        let due = match nack {
            Nack::At(due) => due,
            Nack::Default => {
                let doubled = s.backoff_base * 2u64.pow(job.attempts - 1);
                now + doubled.min(s.backoff_max)
            }
            Nack::Dead => now,
        };
        if nack == Nack::Dead || job.spent() {
            (job.place, job.time) = (Where::Dead, now);
            return Some(None);
        }
        self.wait(i, now, due);
        Some(Some(due))
    }

    pub fn extend(&mut self, now: u64, id: &[u8], token: u64, deadline: u64) -> bool {
        let i = self.holder(id, token);
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
        self.leave(i, now);
        self.jobs.remove(i);
        true
    }

    pub fn reschedule(&mut self, now: u64, id: &[u8], due: Option<u64>, priority: Option<i32>) -> bool {
        let Some(i) = self.position(id) else {
            return false;
        };
        if matches!(self.jobs[i].state(now), State::Claimed | State::Dead) {
            return false;
        }
        self.leave(i, now);
        let job = &mut self.jobs[i];
        if let Some(priority) = priority {
            job.priority = priority;
        }
        if let Some(due) = due {
            job.every = job.every.map(|(period, _)| (period, due));
            self.wait(i, now, due);
        } else if job.place == Where::Claimed {
            job.place = Where::Waiting(true);
        }
        true
    }

    pub fn redrive(&mut self, now: u64, count: u64) -> u64 {
        let dead = self.peek(now, State::Dead);
        let ids: Vec<_> = dead.into_iter().map(|j| j.id.clone()).collect();
        let count = count.min(ids.len() as u64);
        for id in ids.into_iter().take(count as usize) {
            let i = self.position(&id).unwrap();
            self.leave(i, now);
            (self.jobs[i].attempts, self.jobs[i].token) = (0, 0);
            self.wait(i, now, now);
        }
        count
    }

    pub fn configure(&mut self, now: u64, settings: Settings) -> bool {
        let changed = settings != self.settings;
        let old = std::mem::replace(&mut self.settings, settings);
        match settings.rate {
            None => self.units.clear(),
            Some(rate) if old.rate != settings.rate => {
                let on_grid = |u: &mut u64| *u = round_up(*u, grid(rate));
                self.units.iter_mut().for_each(on_grid);
                self.settle(now);
            }
            Some(_) => {}
        }
        changed
    }
}
