//! The contests: the module's commands, the plain commands on which they are built, and the usual ways without the
//! module.

use crate::load::Request;
use redis::{Cmd, Connection, cmd};
use std::time::{SystemTime, UNIX_EPOCH};

/// A comparison of commands that do the same, on the same number of keys.
pub struct Contest {
    /// The name of the picture's file.
    pub slug: &'static str,
    pub title: &'static str,
    pub setting: &'static str,
    pub subjects: Vec<Subject>,
    /// The number of calls per key before the measurement.
    pub primings: usize,
    /// Whether the contest begins on an empty server, and each round with the same content of the keys.
    pub is_refilled: bool,
}

/// One of the compared ways to do the work.
pub struct Subject {
    pub name: &'static str,
    pub role: Role,
    /// The keys of this way are `prefix:number`.
    prefix: &'static str,
    commands: Box<dyn Fn(Call) -> Vec<Cmd>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Ours,
    /// A plain command: the minimum cost of the work.
    Floor,
    Rival,
}

#[derive(Clone, Copy)]
struct Call {
    prefix: &'static str,
    key: usize,
    /// A number that no other call of the run has.
    unique: u64,
    now_ms: u64,
}

impl Call {
    fn key(self) -> String {
        format!("{}:{}", self.prefix, self.key)
    }

    fn member(self) -> String {
        format!("{:x}", self.unique)
    }

    fn on(self, command: &str) -> Cmd {
        let mut cmd = cmd(command);
        cmd.arg(self.key());
        cmd
    }
}

impl Subject {
    fn new(role: Role, name: &'static str, prefix: &'static str, command: impl Fn(Call) -> Cmd + 'static) -> Subject {
        Subject { name, role, prefix, commands: Box::new(move |call| vec![command(call)]) }
    }

    fn script(
        name: &'static str,
        prefix: &'static str,
        sha: &str,
        arguments: impl Fn(&mut Cmd, Call) + 'static,
    ) -> Subject {
        let sha = sha.to_owned();
        Subject::new(Role::Rival, name, prefix, move |call| {
            let mut cmd = cmd("EVALSHA");
            cmd.arg(&sha).arg(1).arg(call.key());
            arguments(&mut cmd, call);
            cmd
        })
    }

    pub fn request(&self, key: usize, unique: u64) -> Request {
        Request::of(&(self.commands)(self.call(key, unique)))
    }

    pub fn key(&self, key: usize) -> String {
        self.call(key, 0).key()
    }

    fn call(&self, key: usize, unique: u64) -> Call {
        Call { prefix: self.prefix, key, unique, now_ms: now_ms() }
    }
}

pub struct Abilities {
    pub has_cell: bool,
    pub has_field_ttls: bool,
    pub has_increx: bool,
}

/// The units of a limit, and its window in seconds.
#[derive(Clone, Copy)]
pub struct Quota(pub u64, pub u64);

/// A window of an hour. The benchmark is shorter, so no unit becomes available again and no member expires during a
/// contest.
const WINDOW: u64 = 3600;

/// A limit that the benchmark never uses up. The window is short, so units become available again and are removed
/// during a contest.
const ALLOWED: Quota = Quota(100, 60);
const DENIED: Quota = Quota(5, WINDOW);
const UNREACHED: Quota = Quota(1_000_000_000, WINDOW);
/// The limit for the measurement of memory, with all units in use.
pub const TAKEN: Quota = Quota(1000, 10);

/// A limiter with a log: a sorted set of the requests of a window. The caller passes a unique member.
const LUA_LOG: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
    local used = redis.call('ZCARD', KEYS[1])
    if used >= tonumber(ARGV[1]) then
        local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
        return {0, 0, first[2] + ARGV[2] - now}
    end
    redis.call('ZADD', KEYS[1], now, ARGV[3])
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return {1, ARGV[1] - used - 1, 0}";

/// A limiter by the generic cell rate algorithm (GCRA). A string holds the theoretical arrival time.
const LUA_GCRA: &str = "
    local time = redis.call('TIME')
    local now = time[1] + time[2] / 1000000
    local interval = ARGV[2] / ARGV[1]
    local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
    local new = tat + interval
    local allow_at = new - ARGV[2]
    if allow_at > now then
        return {0, 0, tostring(allow_at - now)}
    end
    redis.call('SET', KEYS[1], string.format('%.6f', new), 'EX', math.ceil(new - now))
    return {1, math.floor((now - allow_at) / interval), '0'}";

/// Removes expired members and adds a member. The key expires with its last member.
const LUA_TRIM_ADD: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    local added = redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[2])
    local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
    redis.call('PEXPIREAT', KEYS[1], last[2])
    return added";

const LUA_COUNT: &str = "
    local time = redis.call('TIME')
    return redis.call('ZCOUNT', KEYS[1], '(' .. (time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')";

const LUA_ISMEMBER: &str = "
    local time = redis.call('TIME')
    local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
    return (score and tonumber(score) > time[1] * 1000 + math.floor(time[2] / 1000)) and 1 or 0";

/// The hashes of the loaded scripts, for EVALSHA.
pub struct Scripts {
    log: String,
    gcra: String,
    trim_add: String,
    count: String,
    is_member: String,
}

impl Scripts {
    pub fn load(con: &mut Connection) -> Scripts {
        let [log, gcra, trim_add, count, is_member] = [LUA_LOG, LUA_GCRA, LUA_TRIM_ADD, LUA_COUNT, LUA_ISMEMBER]
            .map(|script| cmd("SCRIPT").arg("LOAD").arg(script).query(con).expect("the script is loaded"));
        Scripts { log, gcra, trim_add, count, is_member }
    }
}

pub fn all(scripts: &Scripts, abilities: &Abilities) -> Vec<Contest> {
    let mut contests = vec![
        allowed(scripts, abilities),
        denied(scripts, abilities),
        additions(scripts, abilities),
        counts(scripts, abilities),
        memberships(scripts),
    ];
    contests.extend(filled(scripts, abilities));
    contests
}

/// A way that makes a key larger, and another command to measure on the same key.
pub struct Grown {
    pub fill: Subject,
    pub also: Option<Subject>,
}

pub fn growing(scripts: &Scripts) -> Vec<Grown> {
    let alone = |fill| Grown { fill, also: None };
    vec![
        Grown { fill: zadd("plain"), also: Some(zcard("plain")) },
        Grown { fill: zexp_add("zexp"), also: Some(zexp_card("zexp")) },
        Grown { fill: lua_trim_add(scripts, "trim"), also: Some(lua_count(scripts, "trim")) },
        alone(check("ZRL.CHECK", "sliding", UNREACHED, &[])),
        alone(check("ZRL.CHECK EXACT", "exact", UNREACHED, &["EXACT"])),
        alone(check("ZRL.CHECK LEAKY", "leaky", UNREACHED, &["LEAKY"])),
        alone(lua_log(scripts, "log", UNREACHED)),
    ]
}

pub fn spreading(scripts: &Scripts) -> Vec<Grown> {
    let subjects = [
        incr("incr"),
        zadd("plain"),
        zexp_add("zexp"),
        check("ZRL.CHECK", "sliding", UNREACHED, &[]),
        check("ZRL.CHECK LEAKY", "leaky", UNREACHED, &["LEAKY"]),
        lua_log(scripts, "log", UNREACHED),
    ];
    subjects.map(|fill| Grown { fill, also: None }).into()
}

pub fn limits(scripts: &Scripts, abilities: &Abilities) -> Vec<Subject> {
    let mut subjects = vec![
        incr("incr"),
        zadd("zadd"),
        check("ZRL.CHECK", "sliding", ALLOWED, &[]),
        check("ZRL.CHECK FIXED", "fixed", ALLOWED, &["FIXED"]),
        check("ZRL.CHECK LEAKY", "leaky", ALLOWED, &["LEAKY"]),
        throttle("throttle", ALLOWED),
        mcheck("both", ALLOWED),
        lua_log(scripts, "log", ALLOWED),
        multi_log("multi", ALLOWED),
        lua_gcra(scripts, "gcra", ALLOWED),
        incr_expire("counter", ALLOWED),
    ];
    if abilities.has_cell {
        subjects.push(redis_cell("cell", ALLOWED));
    }
    if abilities.has_increx {
        subjects.push(increx("bounded", ALLOWED));
    }
    subjects
}

pub fn used_up(scripts: &Scripts) -> Vec<Subject> {
    vec![
        check("ZRL.CHECK", "sliding", TAKEN, &[]),
        check("ZRL.CHECK EXACT", "exact", TAKEN, &["EXACT"]),
        check("ZRL.CHECK LEAKY", "leaky", TAKEN, &["LEAKY"]),
        lua_log(scripts, "log", TAKEN),
    ]
}

pub fn expiring(scripts: &Scripts, abilities: &Abilities) -> Vec<Subject> {
    let mut subjects = vec![zadd("plain"), zexp_add("zexp"), lua_trim_add(scripts, "trim")];
    if abilities.has_field_ttls {
        subjects.push(hsetex("hash"));
    }
    subjects
}

fn allowed(scripts: &Scripts, abilities: &Abilities) -> Contest {
    Contest {
        slug: "allowed",
        title: "A request that a rate limit allows",
        setting: "the limit is 100 units a minute. A call takes one unit from a random key. Every key has been checked before",
        subjects: limits(scripts, abilities),
        primings: 1,
        is_refilled: false,
    }
}

fn denied(scripts: &Scripts, abilities: &Abilities) -> Contest {
    let mut subjects = vec![
        incr("full:incr"),
        check("ZRL.CHECK", "full:sliding", DENIED, &[]),
        check("ZRL.CHECK FIXED", "full:fixed", DENIED, &["FIXED"]),
        check("ZRL.CHECK LEAKY", "full:leaky", DENIED, &["LEAKY"]),
        throttle("full:throttle", DENIED),
        mcheck("full:both", DENIED),
        lua_log(scripts, "full:log", DENIED),
        lua_gcra(scripts, "full:gcra", DENIED),
        incr_expire("full:counter", DENIED),
    ];
    if abilities.has_cell {
        subjects.push(redis_cell("full:cell", DENIED));
    }
    if abilities.has_increx {
        subjects.push(increx("full:bounded", DENIED));
    }
    Contest {
        slug: "denied",
        title: "A request that a rate limit denies",
        setting: "the limit is 5 units an hour, and all units of every key are in use",
        subjects,
        primings: 5,
        is_refilled: false,
    }
}

/// Returns contests about limits with some units in use. Each unit was taken at another time, and no unit becomes
/// available again during a contest.
fn filled(scripts: &Scripts, abilities: &Abilities) -> Vec<Contest> {
    const WEEK: u64 = 604_800;
    let subjects = |quota: Quota| {
        // Above 100 units, SLIDING without EXACT keeps several units in one slot.
        let options: &'static [&'static str] = if quota.0 > 100 { &["EXACT"] } else { &[] };
        let mut subjects = vec![
            check("ZRL.CHECK", "filled:sliding", quota, options),
            check("ZRL.CHECK LEAKY", "filled:leaky", quota, &["LEAKY"]),
            lua_log(scripts, "filled:log", quota),
        ];
        if abilities.has_cell {
            subjects.push(redis_cell("filled:cell", quota));
        }
        subjects
    };
    let contest = |held: u64, limit, slug, title, setting| Contest {
        slug,
        title,
        setting,
        subjects: subjects(Quota(limit, WEEK)),
        primings: usize::try_from(held).expect("a hundred"),
        is_refilled: true,
    };
    vec![
        contest(
            1,
            100,
            "allowed-1",
            "Allowed, 1 unit in use",
            "the limit is 100 units a week, and 1 unit of every key is in use",
        ),
        contest(
            10,
            100,
            "allowed-10",
            "Allowed, 10 units in use",
            "the limit is 100 units a week, and 10 units of every key are in use",
        ),
        contest(
            50,
            100,
            "allowed-50",
            "Allowed, 50 units in use",
            "the limit is 100 units a week, and 50 units of every key are in use",
        ),
        contest(
            100,
            200,
            "allowed-100",
            "Allowed, 100 units in use",
            "the limit is 200 units a week, EXACT, and 100 units of every key are in use",
        ),
        contest(
            1,
            1,
            "denied-1",
            "Denied, 1 unit in use",
            "the limit is 1 unit a week, and all units of every key are in use",
        ),
        contest(
            10,
            10,
            "denied-10",
            "Denied, 10 units in use",
            "the limit is 10 units a week, and all units of every key are in use",
        ),
        contest(
            50,
            50,
            "denied-50",
            "Denied, 50 units in use",
            "the limit is 50 units a week, and all units of every key are in use",
        ),
        contest(
            100,
            100,
            "denied-100",
            "Denied, 100 units in use",
            "the limit is 100 units a week, and all units of every key are in use",
        ),
    ]
}

fn additions(scripts: &Scripts, abilities: &Abilities) -> Contest {
    Contest {
        slug: "additions",
        title: "A member that expires",
        setting: "a call adds a new member, which expires in an hour, to a random key. Every key has members",
        subjects: expiring(scripts, abilities),
        primings: 1,
        is_refilled: false,
    }
}

fn counts(scripts: &Scripts, abilities: &Abilities) -> Contest {
    let mut subjects = vec![zcard("plain"), zexp_card("zexp"), lua_count(scripts, "trim")];
    if abilities.has_field_ttls {
        subjects.push(hlen("hash"));
    }
    Contest {
        slug: "counts",
        title: "How many members are live",
        setting: "a call counts the live members of a random key. The sets are those of the section \"A member that expires\"",
        subjects,
        primings: 0,
        is_refilled: false,
    }
}

fn memberships(scripts: &Scripts) -> Contest {
    let stranger = |mut cmd: Cmd| {
        cmd.arg("nobody");
        cmd
    };
    Contest {
        slug: "memberships",
        title: "Whether a member is live",
        setting: "a call asks for a member that does not exist. The sets are those of the section \"A member that expires\"",
        subjects: vec![
            Subject::new(Role::Floor, "ZSCORE", "plain", move |call| stranger(call.on("ZSCORE"))),
            Subject::new(Role::Ours, "ZEXP.ISMEMBER", "zexp", move |call| stranger(call.on("ZEXP.ISMEMBER"))),
            Subject::script("Lua ZSCORE", "trim", &scripts.is_member, move |cmd, _| {
                cmd.arg("nobody");
            }),
        ],
        primings: 0,
        is_refilled: false,
    }
}

// --- The subjects -------------------------------------------------------------------------------------------------

fn incr(prefix: &'static str) -> Subject {
    Subject::new(Role::Floor, "INCR", prefix, |call| call.on("INCR"))
}

fn zadd(prefix: &'static str) -> Subject {
    Subject::new(Role::Floor, "ZADD", prefix, |call| {
        let mut cmd = call.on("ZADD");
        cmd.arg(call.now_ms + WINDOW * 1000).arg(call.member());
        cmd
    })
}

fn zcard(prefix: &'static str) -> Subject {
    Subject::new(Role::Floor, "ZCARD", prefix, |call| call.on("ZCARD"))
}

fn check(
    name: &'static str,
    prefix: &'static str,
    Quota(units, window): Quota,
    options: &'static [&'static str],
) -> Subject {
    Subject::new(Role::Ours, name, prefix, move |call| {
        let mut cmd = call.on("ZRL.CHECK");
        cmd.arg(units).arg(window).arg(options);
        cmd
    })
}

fn zexp_add(prefix: &'static str) -> Subject {
    Subject::new(Role::Ours, "ZEXP.ADD", prefix, |call| {
        let mut cmd = call.on("ZEXP.ADD");
        cmd.arg(WINDOW).arg(call.member());
        cmd
    })
}

fn zexp_card(prefix: &'static str) -> Subject {
    Subject::new(Role::Ours, "ZEXP.CARD", prefix, |call| call.on("ZEXP.CARD"))
}

fn lua_log(scripts: &Scripts, prefix: &'static str, Quota(units, window): Quota) -> Subject {
    Subject::script("Lua sliding log", prefix, &scripts.log, move |cmd, call| {
        cmd.arg(units).arg(window * 1000).arg(call.member());
    })
}

fn multi_log(prefix: &'static str, Quota(_, window): Quota) -> Subject {
    let commands = move |call: Call| {
        let mut trim = call.on("ZREMRANGEBYSCORE");
        trim.arg("-inf").arg(call.now_ms - window * 1000);
        let mut add = call.on("ZADD");
        add.arg(call.now_ms).arg(call.member());
        let mut expire = call.on("EXPIRE");
        expire.arg(window);
        vec![cmd("MULTI"), trim, call.on("ZCARD"), add, expire, cmd("EXEC")]
    };
    Subject { name: "MULTI/EXEC log", role: Role::Rival, prefix, commands: Box::new(commands) }
}

fn lua_gcra(scripts: &Scripts, prefix: &'static str, Quota(units, window): Quota) -> Subject {
    Subject::script("Lua GCRA", prefix, &scripts.gcra, move |cmd, _| {
        cmd.arg(units).arg(window);
    })
}

fn throttle(prefix: &'static str, Quota(units, window): Quota) -> Subject {
    Subject::new(Role::Ours, "ZRL.THROTTLE", prefix, move |call| {
        let mut cmd = call.on("ZRL.THROTTLE");
        cmd.arg(units - 1).arg(units).arg(window);
        cmd
    })
}

fn mcheck(prefix: &'static str, Quota(units, window): Quota) -> Subject {
    Subject::new(Role::Ours, "ZRL.MCHECK of two", prefix, move |call| {
        let mut cmd = cmd("ZRL.MCHECK");
        cmd.arg(2).arg(call.key()).arg(format!("{}:too", call.key())).arg(units).arg(window).arg(units).arg(window);
        cmd
    })
}

fn redis_cell(prefix: &'static str, Quota(units, window): Quota) -> Subject {
    Subject::new(Role::Rival, "redis-cell", prefix, move |call| {
        let mut cmd = call.on("CL.THROTTLE");
        // CL.THROTTLE allows one unit more than its burst.
        cmd.arg(units - 1).arg(units).arg(window);
        cmd
    })
}

fn lua_trim_add(scripts: &Scripts, prefix: &'static str) -> Subject {
    Subject::script("Lua trim + add", prefix, &scripts.trim_add, |cmd, call| {
        cmd.arg(WINDOW * 1000).arg(call.member());
    })
}

fn lua_count(scripts: &Scripts, prefix: &'static str) -> Subject {
    Subject::script("Lua ZCOUNT", prefix, &scripts.count, |_, _| {})
}

fn hsetex(prefix: &'static str) -> Subject {
    Subject::new(Role::Rival, "HSETEX (hash field TTL)", prefix, |call| {
        let mut cmd = call.on("HSETEX");
        cmd.arg("EX").arg(WINDOW).arg(&["FIELDS", "1"]).arg(call.member()).arg("1");
        cmd
    })
}

/// HLEN also counts expired fields.
fn hlen(prefix: &'static str) -> Subject {
    Subject::new(Role::Rival, "HLEN (hash field TTL)", prefix, |call| call.on("HLEN"))
}

/// The most common limiter: a counter that expires with its window. The client compares the count with the limit.
fn incr_expire(prefix: &'static str, Quota(_, window): Quota) -> Subject {
    let commands = move |call: Call| {
        let mut expire = call.on("EXPIRE");
        expire.arg(window).arg("NX");
        vec![call.on("INCR"), expire]
    };
    Subject { name: "INCR + EXPIRE NX", role: Role::Rival, prefix, commands: Box::new(commands) }
}

fn increx(prefix: &'static str, Quota(units, window): Quota) -> Subject {
    Subject::new(Role::Rival, "INCREX UBOUND", prefix, move |call| {
        let mut cmd = call.on("INCREX");
        cmd.arg("UBOUND").arg(units).arg("EX").arg(window).arg("ENX");
        cmd
    })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a time of this age")
}
