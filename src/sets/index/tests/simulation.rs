//! A simulated server with clients, a cron job, a timer and a wall clock that steps. Checks of some sets fail.
//!
//! `ZEITSET_SEEDS` sets the number of seeds (default [`SEEDS`]), `ZEITSET_SEED` the first seed. A failure prints its
//! seed.

use crate::base::alarm::{Alarm, HORIZON};
use crate::base::time::{self, Millis, NEVER};
use crate::base::{histories, number};
use crate::sets::index::{Need, Outcome, PendingTag, Tracking};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u32 = 75;

/// The number of random actions per server.
const DEEDS: usize = 150;

const DAY: Millis = 86_400_000;

type Name = (i32, u8);

#[derive(Clone, Default)]
struct Set {
    members: BTreeMap<u8, Millis>,
    /// Whether a plain command has removed the tag.
    is_untagged: bool,
}

impl Set {
    fn lowest(&self) -> Millis {
        let lowest = self.members.values().copied().min().unwrap_or(NEVER);
        if lowest >= time::MAX { NEVER } else { lowest }
    }
}

struct Server {
    random: StdRng,
    wall: Millis,
    mono: Millis,
    cron_every: Millis,
    next_cron: Millis,
    /// The time at which the timer fires, by the monotonic clock.
    timer: Option<Millis>,
    tracking: Tracking,
    sets: BTreeMap<Name, Set>,
    /// The sorted sets without a tag that were expiring sets, or that a STORE command made.
    ordinary: BTreeSet<Name>,
    /// The sorted sets that a STORE command made, and that still have a tag.
    copied: BTreeSet<Name>,
    /// The sets that cannot be read ([`Outcome::Unknown`]).
    failing: BTreeSet<Name>,
    sweeps: bool,
    hurries: u32,
    /// For each expired member, the first time at which the sweeper was able to delete it, by the monotonic clock.
    dead_since: BTreeMap<(Name, u8), Millis>,
    slices: u64,
    /// The test allows the sweeper one slice per 200 ms, plus this number of slices. Each action of the simulation adds
    /// 2 to this number. Each deleted member adds 1.
    reasons: u64,
}

impl Server {
    fn new(seed: u64) -> Server {
        let mut random = StdRng::seed_from_u64(seed);
        let cron_every = [20, 100, 100, 1000][random.random_range(0..4)];
        Server {
            random,
            wall: 1_800_000_000_000,
            mono: 5000,
            cron_every,
            next_cron: 5000,
            timer: None,
            tracking: Tracking::default(),
            sets: BTreeMap::new(),
            ordinary: BTreeSet::new(),
            copied: BTreeSet::new(),
            failing: BTreeSet::new(),
            sweeps: true,
            hurries: 0,
            dead_since: BTreeMap::new(),
            slices: 0,
            reasons: 0,
        }
    }

    fn need(&self) -> Need {
        Need { sweeps: self.sweeps, at_once: self.hurries > 0 }
    }

    fn nothing_postponed(&self) -> bool {
        self.tracking.databases.values().all(|database| database.postponed.is_empty())
    }

    fn name(&mut self) -> Name {
        (self.random.random_range(0..3), self.random.random_range(0..6))
    }

    fn lifetime(&mut self) -> Millis {
        let most =
            [1, 20, 1500, 5000, 60_000, 3_600_000, 25 * DAY, 60 * DAY, 365 * DAY][self.random.random_range(0..9)];
        self.random.random_range(1..=most)
    }

    fn obey(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::AsItIs => {}
            Alarm::Off => assert!(self.timer.take().is_some(), "there is a timer to disarm"),
            Alarm::In(delay) => {
                assert!((1..=HORIZON).contains(&delay), "a delay of {delay} ms");
                let due = self.tracking.next_due().is_some_and(|due| due <= self.wall + delay);
                assert!(due || self.hurries > 0 || !self.nothing_postponed(), "nothing is due within {delay} ms");
                assert!(self.sweeps || self.hurries > 0, "this server may do nothing");
                self.timer = Some(self.mono + delay);
            }
        }
        assert_eq!(self.timer.is_some(), self.tracking.is_armed());
    }

    fn after_change(&mut self) {
        let need = self.need();
        let alarm = self.tracking.after_change(self.wall, || need);
        self.obey(alarm);
    }

    /// Lets time pass. The server's timer and cron job run when they are due.
    fn pass(&mut self, span: Millis) {
        let until = self.mono + span;
        loop {
            let next = self.timer.map_or(self.next_cron, |timer| timer.min(self.next_cron));
            if next > until {
                self.go_to(until);
                return;
            }
            self.go_to(next.max(self.mono));
            if self.timer.is_some_and(|timer| timer <= self.mono) {
                self.slice();
            } else {
                self.cron();
            }
        }
    }

    fn go_to(&mut self, mono: Millis) {
        self.wall += mono - self.mono;
        self.mono = mono;
    }

    fn slice(&mut self) {
        self.timer = None;
        self.tracking.disarmed();
        self.slices += 1;
        self.settle();
        let mut budget = self.random.random_range(5..40);
        let mut visits = 0;
        while let Some(key) = self.sweeps.then(|| self.tracking.next_visit(self.wall)).flatten() {
            let outcome = self.visit((key.database, key.name[0]), &mut budget);
            self.tracking.visited(&key, outcome, self.wall);
            visits += 1;
            assert!(visits < 1000, "a slice visits without end");
            if budget == 0 {
                break;
            }
        }
        self.hurries = self.hurries.saturating_sub(1);
        let pause = self.random.random_range(1..15);
        self.tracking.pause(self.wall, pause);
        let alarm = self.tracking.at_cron(self.wall, self.need());
        self.obey(alarm);
    }

    fn visit(&mut self, name: Name, budget: &mut usize) -> Outcome {
        assert!(!self.ordinary.contains(&name), "{name:?} is no expiring set");
        if self.failing.contains(&name) {
            return Outcome::Unknown;
        }
        let Some(set) = self.sets.get_mut(&name) else { return Outcome::Gone };
        let dead: Vec<u8> = set.members.iter().filter(|(_, at)| **at <= self.wall).map(|(member, _)| *member).collect();
        for member in dead.iter().take(*budget) {
            set.members.remove(member);
            self.reasons += 1;
        }
        let left = dead.len().saturating_sub(*budget);
        *budget = budget.saturating_sub(dead.len().max(1));
        let due = set.lowest();
        if set.members.is_empty() {
            self.sets.remove(&name);
            return Outcome::Gone;
        }
        Outcome::Next { due: if left == 0 { due.max(self.wall + 10) } else { due }, left: left as u64 }
    }

    fn cron(&mut self) {
        let need = self.need();
        self.settle();
        self.tracking.end_all_moves();
        let alarm = self.tracking.at_cron(self.wall, need);
        self.obey(alarm);
        self.tracking.free_some();
        self.next_cron = self.mono + self.cron_every;
        self.check();
    }

    /// Adds the tags that are missing, and removes the copied ones, as far as the keys can be read.
    fn settle(&mut self) {
        while let Some(key) = self.tracking.next_pending() {
            let name = (key.database, key.name[0]);
            if self.failing.contains(&name) {
                continue;
            }
            match self.tracking.pending(key.database, &key.name) {
                Some(PendingTag::Copied) => {
                    assert!(self.copied.remove(&name), "{name:?} has a copied tag");
                    self.ordinary.insert(name);
                }
                _ => {
                    let set = self.sets.get_mut(&name).expect("an expiring set");
                    assert!(set.is_untagged, "{name:?} lacks its tag");
                    set.is_untagged = false;
                }
            }
            self.tracking.forget_pending(key.database, &key.name);
        }
        assert!(!self.tracking.has_new_pending());
    }

    /// Checks the invariants, in every run of the cron job.
    fn check(&mut self) {
        let (wall, mono) = (self.wall, self.mono);
        let near = self.tracking.next_due().is_some_and(|due| due <= wall + HORIZON);
        if !(near || self.hurries > 0 || !self.nothing_postponed()) {
            assert_eq!(self.timer, None, "a timer is armed for nothing");
        }
        assert_eq!(self.tracking.len(), self.sets.len(), "{:?}", self.sets.keys().collect::<Vec<_>>());
        let untagged = self.sets.values().filter(|set| set.is_untagged).count();
        assert_eq!(self.tracking.pending_count(), untagged + self.copied.len());
        for &(database, key) in &self.copied {
            assert_eq!(self.tracking.pending(database, &[key]), Some(PendingTag::Copied));
        }
        let mut dead_since = BTreeMap::new();
        for (&name, set) in &self.sets {
            assert!(self.tracking.due(name.0, &[name.1]).is_some(), "{name:?} is not tracked");
            let is_held = self
                .tracking
                .databases
                .values()
                .any(|database| database.postponed.keys().any(|(_, key)| **key == [name.1]));
            for (&member, _) in set.members.iter().filter(|(_, at)| **at <= wall) {
                let since = match self.dead_since.get(&(name, member)) {
                    Some(&since) if self.sweeps && !self.failing.contains(&name) && !is_held => since,
                    // The member has just expired, or the sweeper could not delete it until now.
                    _ => mono,
                };
                let late = mono - since;
                assert!(late <= 2500 + self.cron_every, "{name:?} keeps {member} for {late} ms");
                dead_since.insert((name, member), since);
            }
        }
        self.dead_since = dead_since;
    }

    fn act(&mut self) {
        self.reasons += 2;
        let name = self.name();
        let key = [name.1];
        match self.random.random_range(0..100) {
            0..=34 => self.add(name),
            35..=44 => self.change_plainly(name),
            45..=47 => {
                self.replace(name);
                self.tracking.gone(name.0, &key);
            }
            48..=49 => self.take_tag(name),
            50..=51 => {
                // ZREM of the tag: the set is no longer an expiring set.
                if self.sets.get(&name).is_some_and(|set| !set.is_untagged) {
                    self.replace(name);
                    self.tracking.gone(name.0, &key);
                    self.ordinary.insert(name);
                }
            }
            52..=53 => {
                // A STORE command copies a tag.
                self.replace(name);
                self.tracking.gone(name.0, &key);
                self.tracking.note_pending(name.0, &key, PendingTag::Copied);
                self.copied.insert(name);
            }
            54..=60 => self.rename(name),
            61..=64 => self.copy(name),
            65..=66 => {
                let all = self.random.random_bool(0.2);
                self.sets.retain(|other, _| !all && other.0 != name.0);
                self.ordinary.retain(|other| !all && other.0 != name.0);
                self.copied.retain(|other| !all && other.0 != name.0);
                self.tracking.flush((!all).then_some(name.0));
            }
            67..=69 => {
                let other = self.name().0;
                let swapped = |(db, key)| {
                    (
                        if db == name.0 {
                            other
                        } else if db == other {
                            name.0
                        } else {
                            db
                        },
                        key,
                    )
                };
                self.tracking.swap(name.0, other);
                self.sets = std::mem::take(&mut self.sets).into_iter().map(|(at, set)| (swapped(at), set)).collect();
                self.ordinary = self.ordinary.iter().map(|&at| swapped(at)).collect();
                self.copied = self.copied.iter().map(|&at| swapped(at)).collect();
                self.failing = self.failing.iter().map(|&at| swapped(at)).collect();
                let dead = std::mem::take(&mut self.dead_since).into_iter();
                self.dead_since = dead.map(|((at, member), since)| ((swapped(at), member), since)).collect();
            }
            70..=77 => {
                let step = [100, 2000, 60_000, 3_600_000, 7 * 3_600_000, 40 * DAY][self.random.random_range(0..6)];
                self.wall = if self.random.random_bool(0.5) { self.wall + step } else { self.wall - step };
            }
            78..=82 => drop(self.failing.insert(name)),
            83..=89 => self.failing.clear(),
            90..=92 => self.hurries = self.random.random_range(1..5),
            93..=94 => self.sweeps = false,
            95..=98 => self.sweeps = true,
            _ => {
                // The server is busy with something else.
                let span = self.random.random_range(0..10_000);
                self.go_to(self.mono + span);
                self.dead_since.clear();
            }
        }
        self.after_change();
    }

    fn add(&mut self, name: Name) {
        if self.ordinary.contains(&name) || self.copied.contains(&name) {
            return;
        }
        let is_new = !self.sets.contains_key(&name);
        let at = if self.random.random_bool(0.1) { time::MAX } else { self.wall + self.lifetime() };
        let member = self.random.random_range(0..12);
        let set = self.sets.entry(name).or_default();
        set.members.insert(member, at);
        set.is_untagged = false;
        self.dead_since.remove(&(name, member));
        self.tracking.database(name.0).change(&[name.1], Some(at), is_new);
        self.tracking.forget_pending(name.0, &[name.1]);
    }

    /// The key at this name is gone.
    fn replace(&mut self, name: Name) {
        self.sets.remove(&name);
        self.ordinary.remove(&name);
        self.copied.remove(&name);
        self.dead_since.retain(|(other, _), _| *other != name);
    }

    fn change_plainly(&mut self, name: Name) {
        let expiry = self.wall + self.lifetime();
        let expiry = if self.random.random_bool(0.3) { expiry - self.random.random_range(0..DAY) } else { expiry };
        let Some(set) = self.sets.get_mut(&name) else { return };
        let member = self.random.random_range(0..12);
        if self.random.random_bool(0.3) {
            set.members.remove(&member);
        } else {
            set.members.insert(member, expiry);
        }
        self.dead_since.remove(&(name, member));
        let (is_empty, lowest) = (set.members.is_empty(), set.lowest());
        if is_empty {
            self.sets.remove(&name);
            self.tracking.gone(name.0, &[name.1]);
        } else if self.tracking.due(name.0, &[name.1]).is_some_and(|due| lowest < due) {
            self.tracking.database(name.0).track(&[name.1], lowest);
        }
    }

    /// A plain command removes the tag together with members.
    fn take_tag(&mut self, name: Name) {
        if let Some(set) = self.sets.get_mut(&name) {
            set.is_untagged = true;
            self.tracking.note_pending(name.0, &[name.1], PendingTag::Taken);
        }
    }

    /// Moves a key to a random name, as RENAME and MOVE do. Sometimes another module moves a third key between the two
    /// events.
    fn rename(&mut self, from: Name) {
        let is_there = self.sets.contains_key(&from) || self.ordinary.contains(&from) || self.copied.contains(&from);
        let to = self.name();
        if from == to || !is_there {
            return;
        }
        let (set, ordinary, copied) = (self.sets.remove(&from), self.ordinary.remove(&from), self.copied.remove(&from));
        self.replace(from);
        self.tracking.begin_move(from.0, &[from.1]);
        self.replace(to);
        self.sets.extend(set.map(|set| (to, set)));
        self.ordinary.extend(ordinary.then_some(to));
        self.copied.extend(copied.then_some(to));
        let other = self.name();
        if self.random.random_bool(0.2) && ![from, to].contains(&other) {
            self.rename_within(other, to);
        }
        assert_eq!(self.tracking.end_move(to.0, &[to.1]), !ordinary);
    }

    fn rename_within(&mut self, from: Name, not: Name) {
        let to = self.name();
        if [from, not].contains(&to) {
            return;
        }
        if let Some(set) = self.sets.remove(&from) {
            self.tracking.begin_move(from.0, &[from.1]);
            self.replace(from);
            self.replace(to);
            self.sets.insert(to, set);
            assert!(self.tracking.end_move(to.0, &[to.1]));
        }
    }

    /// Copies a key to a random name. The copy of a set without a tag is ordinary, the copy of a copied tag is pending.
    fn copy(&mut self, from: Name) {
        let to = self.name();
        let (set, is_copied) = (self.sets.get(&from).cloned(), self.copied.contains(&from));
        if from == to || set.is_none() && !is_copied {
            return;
        }
        self.replace(to);
        self.tracking.gone(to.0, &[to.1]);
        match set {
            Some(set) if set.is_untagged => drop(self.ordinary.insert(to)),
            Some(set) => {
                self.tracking.database(to.0).track(&[to.1], set.lowest());
                self.sets.insert(to, set);
            }
            None => {
                self.tracking.note_pending(to.0, &[to.1], PendingTag::Copied);
                self.copied.insert(to);
            }
        }
    }
}

/// Lets time pass without actions. The sweeper must delete all expired members, but must not run much more often than
/// members expire.
fn calm_down(server: &mut Server) {
    server.failing.clear();
    server.sweeps = true;
    server.pass(70_000);
    assert!(server.nothing_postponed(), "a set is left alone forever");
    let before = server.slices;
    let deaths = |server: &Server| -> usize {
        let soon = server.wall + 700_000;
        server.sets.values().map(|set| set.members.values().filter(|&&at| at <= soon).count()).sum()
    };
    let (deaths, sets) = (deaths(server) as u64, server.sets.len() as u64);
    server.pass(600_000);
    let slices = server.slices - before;
    // A set whose first member got a later expiry may be visited once without need.
    assert!(slices <= 3 * deaths + sets, "{slices} slices for {deaths} deaths in {sets} sets");
}

fn run(seed: u64) -> u64 {
    let mut server = Server::new(seed);
    for _ in 0..DEEDS {
        server.act();
        let most = [0, 0, 1, 10, 300, 3000, 30_000][server.random.random_range(0..7)];
        let span = server.random.random_range(0..=most);
        server.pass(span);
    }
    let budget = server.reasons + server.mono / 200;
    assert!(server.slices <= budget, "{} slices, {} reasons in {} ms", server.slices, server.reasons, server.mono);
    server.cron_every = 1000;
    calm_down(&mut server);
    server.mono
}

#[test]
fn nothing_dead_stays_and_nothing_is_armed_for_what_is_far() {
    let first = number("ZEITSET_SEED").unwrap_or(1);
    let seeds = u64::from(histories(SEEDS));
    let mut simulated = 0;
    for seed in first..first + seeds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(span) => simulated += span,
            Err(_) => panic!("ZEITSET_SEED={seed} ZEITSET_SEEDS=1 repeats this"),
        }
    }
    eprintln!("{seeds} servers, {} hours", simulated / 3_600_000);
}
