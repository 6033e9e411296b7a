//! The rows of the table "single calls at scale": one per command.
//!
//! A call is a line of words with placeholders: `{r}` is a random number below N, `{n}` a number that was not used
//! before, `{now}` the time in ms. `{id}` and `{token}` belong to a job that was claimed just before the measurement.
//! `{tail}` is the number of a job that is not claimed. `{1000 …}` repeats its content a thousand times.
//! [`super::fill`] creates the keys.

pub struct Row {
    pub call: &'static str,
    /// A comparable native command. Empty if there is none.
    pub native: &'static str,
}

const fn row(call: &'static str, native: &'static str) -> Row {
    Row { call, native }
}

pub const ROWS: &[Row] = &[
    row("ZEXP.ADD set 1d new:{n}", "ZADD zset {n} new:{n}"),
    row("ZEXP.ADD set CAP 100000000 1d new:{n}", "ZADD zset {n} new:{n}"),
    row("ZEXP.ADD fresh:{n} 1d m", "ZADD zfresh:{n} 1 m"),
    row("ZEXP.ADD sets:{r} 1d other", "ZADD zset {r} m:{r}"),
    row("ZEXP.EXPIRE set 2d m:{r}", "ZADD zset XX {r} m:{r}"),
    row("ZEXP.PERSIST set m:{r}", "ZADD zset XX {r} m:{r}"),
    row("ZEXP.ISMEMBER set m:{r}", "ZSCORE zset m:{r}"),
    row("ZEXP.MISMEMBER set m:{r} m:{r}", "ZMSCORE zset m:{r} m:{r}"),
    row("ZEXP.TTL set m:{r}", "ZSCORE zset m:{r}"),
    row("ZEXP.PTTL set m:{r}", "ZSCORE zset m:{r}"),
    row("ZEXP.CARD set", "ZCARD zset"),
    row("ZEXP.MEMBERS set LIMIT 0 10", "ZRANGEBYSCORE zset -inf +inf LIMIT 0 10"),
    row("ZEXP.MEMBERS set LIMIT 0 1000 WITHPTTL", "ZRANGEBYSCORE zset -inf +inf WITHSCORES LIMIT 0 1000"),
    row("ZEXP.RANDMEMBER set", "ZRANDMEMBER zset"),
    row("ZEXP.RANDMEMBER set 10", "ZRANDMEMBER zset 10"),
    row("ZEXP.POP set", "ZPOPMIN zset"),
    row("ZEXP.POP set 100", "ZPOPMIN zset 100"),
    row("ZEXP.REM set m:{r}", "ZREM zset m:{r}"),
    row("ZEXP.ADOPT set", "ZCARD zset"),
    row("ZRL.CHECK limit:{r} 100 1d", "INCR counter:{r}"),
    row("ZRL.CHECK fixed:{r} 100 1d FIXED", "INCR counter:{r}"),
    row("ZRL.CHECK leaky:{r} 100 1d LEAKY", "INCR counter:{r}"),
    row("ZRL.CHECK exact 1000000000 30d EXACT", "ZADD zset {n} new:{n}"),
    row("ZRL.CHECK exact 10 30d EXACT", "ZCARD zset"),
    row("ZRL.PEEK exact 1000000000 30d EXACT", "ZCARD zset"),
    row("ZRL.MCHECK 2 limit:a limit:b 1000000 1m 1000000 1h", "INCR counter:{r}"),
    row("ZRL.REFUND exact 1 AT {last}", "ZREM zset m:{r}"),
    row("ZRL.INFO exact", "ZCARD zset"),
    row("ZRL.THROTTLE throttle:{r} 10 100 60", "INCR counter:{r}"),
    row("ZRL.TOP", "GET counter:1"),
    row("ZQ.PUSH jobs x ID new:{n}", "RPUSH list {n}"),
    row("ZQ.PUSH jobs x ID later:{n} DELAY 1h", "ZADD zset {n} new:{n}"),
    row("ZQ.PUSH grouped x GROUP g:{r}", "RPUSH list {n}"),
    row("ZQ.CLAIM 1 jobs LEASE 1h", "LPOP list"),
    row("ZQ.CLAIM 1 grouped LEASE 1h", "LPOP list"),
    row("ZQ.CLAIM 1 jobs LEASE 1h COUNT 100", "LPOP list 100"),
    row("ZQ.ACK jobs {id} {token}", "ZREM zset m:{r}"),
    row("ZQ.NACK jobs {id} {token} DELAY 1h", "ZADD zset {r} m:{r}"),
    row("ZQ.NACK jobs {id} {token} DEAD ERROR text", "ZADD zset {r} m:{r}"),
    row("ZQ.EXTEND jobs 2h {id} {token}", "ZADD zset {r} m:{r}"),
    row("ZQ.PROGRESS jobs {id} {token} half", "HSET hash f:{r} 1"),
    row("ZQ.RESCHEDULE jobs j:{tail} DELAY 1h", "ZADD zset {r} m:{r}"),
    row("ZQ.CANCEL jobs j:{tail}", "ZREM zset m:{r}"),
    row("ZQ.GET jobs j:{tail}", "HGET hash f:{r}"),
    row("ZQ.PEEK jobs", "LRANGE list 0 9"),
    row("ZQ.PEEK jobs COUNT 10 AFTER j:{tail}", "LRANGE list 1000 1009"),
    row("ZQ.PEEK grouped DELAYED GROUP g:{r}", "LRANGE list 0 9"),
    row("ZQ.HOLD grouped g:{r} 1ms", "HSET hash f:{r} 1"),
    row("ZQ.STATS jobs", "LLEN list"),
    row("ZQ.CONFIG jobs MAXLEN 100000000", "LLEN list"),
    row("ZQ.GROUPS grouped", "HSCAN groups 0 COUNT 10"),
    row("ZQ.GROUPS grouped LARGEST", "HSCAN groups 0 COUNT 10"),
    row("ZQ.LIST", "SCAN 0 COUNT 100"),
    row("ZQ.REDRIVE dead", "LMPOP 1 list LEFT COUNT 1000"),
    row("ZQ.CLEAN dead DEAD", "LMPOP 1 list LEFT COUNT 1000"),
    row("ZLB.SET board m:{r} {n} {r}", "ZADD zset {n} m:{r}"),
    row("ZLB.INCR board m:{r} first 1", "ZINCRBY zset 1 m:{r}"),
    row("ZLB.GET board m:{r}", "ZSCORE zset m:{r}"),
    row("ZLB.RANK board m:{r}", "ZREVRANK zset m:{r}"),
    row("ZLB.RANK board m:{r} DENSE", "ZREVRANK zset m:{r}"),
    row("ZLB.RANK board m:{r} COMPETITION", "ZREVRANK zset m:{r}"),
    row("ZLB.RANKOF board {r} 1", "ZCOUNT zset {r} +inf"),
    row("ZLB.RANGE board 500 509", "ZREVRANGE zset 500 509"),
    row("ZLB.AROUND board m:{r} 5 WITHRANK", "ZREVRANGE zset 5000 5010"),
    row("ZLB.CARD board", "ZCARD zset"),
    row("ZLB.INFO board", "ZCARD zset"),
    row("ZLB.REM board m:{r}", "ZREM zset m:{r}"),
    row("ZLB.REMRANGE board 0 9", "ZREMRANGEBYRANK zset 0 9"),
    row("ZLB.CREATE boards:{n} DIM first DIM second", "ZADD zfresh:{n} 1 m"),
];

/// Calls with many members, jobs or keys.
pub const LARGE: &[Row] = &[
    row("ZQ.CLAIM 1 jobs LEASE 1h COUNT 1000", "LPOP list 1000"),
    row("ZQ.ACK jobs {1000 id token}", "ZREM zset {1000 m:{r}}"),
    row("ZQ.CANCEL jobs {1000 j:{tail}}", "ZREM zset {1000 m:{r}}"),
    row("ZEXP.ADD set {1000 1d new:{n}}", "ZADD zset {1000 {r} new:{n}}"),
    row("ZEXP.POP set 1000", "ZPOPMIN zset 1000"),
    row("ZEXP.RANDMEMBER set 1000", "ZRANDMEMBER zset 1000"),
    row("ZEXP.MEMBERS set LIMIT 0 300000", "ZRANGEBYSCORE zset -inf +inf LIMIT 0 300000"),
    row("ZEXP.MEMBERS set LIMIT 300000 10", "ZRANGEBYSCORE zset -inf +inf LIMIT 300000 10"),
    row("ZEXP.RANDMEMBER set -290000", "ZRANDMEMBER zset -290000"),
    row("ZRL.REFUND exact 1 AT {last-9000}", "ZADD zset {1000 {r} m:{r}}"),
];

/// Calls that process a whole value. Each is made once.
pub const WHOLE: &[Row] = &[
    row("ZEXP.MEMBERS set", "ZRANGE zset 0 -1"),
    row("ZEXP.ADOPT adopted UNIT MS PLUS 1000d FORCE", "COPY adopted copied"),
    row("ZRL.CHECK exact 1000000000 1h EXACT", "ZREMRANGEBYRANK zset 0 299999"),
    row("ZQ.CONFIG aging AGING 1s", ""),
    row("ZLB.MERGE merged 1 board", "ZUNIONSTORE zmerged 1 zset"),
    row("ZLB.CLEAR merged", "UNLINK zmerged"),
    row("COPY jobs jobs2", "COPY hash hash2"),
    row("COPY board board2", "COPY zset zset2"),
    row("UNLINK jobs", "UNLINK hash"),
    row("UNLINK board", "UNLINK zset"),
];
