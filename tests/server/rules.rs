//! Rules for all commands: the position of options, the reply for a missing key, the names of fields, states and units.
//! The tests check every command of the table, or every map in a reply.

use super::described::{Arg, Command, commands};
use super::surface::{map, ours};
use redis::Value;
use std::collections::BTreeSet;
use testkit::{Client, FAR, Stream, show, start};

const STATES: [&str; 4] = ["ready", "delayed", "claimed", "dead"];

/// Creates keys of every kind: a queue with a job in each state and every setting, boards, an expiring set, limits of
/// all algorithms.
fn plant(c: &mut Client) {
    c.run_all([
        "ZQ.CONFIG queue MAXATTEMPTS 7 BACKOFF 90s 2h JITTER 10 AGING 90s MAXLEN 9 DEADLEN 9 DEADTTL 90s CONCURRENCY 9",
        "ZQ.CONFIG queue RATE 900 90s GROUPCONCURRENCY 9 GROUPRATE 900 90s ORDERED no PAUSED no",
        "ZQ.PUSH queue x ID dead",
        "ZQ.PUSH queue x ID claimed",
        "ZLB.CREATE board DIM points DIM seconds ASC FLOAT KEEP 9",
        "ZLB.SET board ann 5 1.5",
        "ZEXP.ADD set 1h a 2h b",
        "ZRL.CHECK sliding 5 1h",
        "ZRL.CHECK fixed 5 1h FIXED",
        "ZRL.CHECK leaky 5 1h LEAKY",
        "ZRL.THROTTLE throttle 5 5 3600",
    ]);
    let token = c.claim("ZQ.CLAIM 1 queue LEASE 1h");
    c.run(&format!("ZQ.NACK queue dead {token} DEAD ERROR why"));
    c.claim("ZQ.CLAIM 1 queue LEASE 1h AS worker");
    c.run("ZQ.PUSH queue x ID ready");
    c.run("ZQ.PUSH queue x ID delayed DELAY 1h EVERY 1h GROUP g");
}

/// Calls whose reply is a map, about the keys of [`plant`].
const MAPS: [&str; 11] = [
    "ZQ.CONFIG queue",
    "ZQ.STATS queue",
    "ZQ.GET queue ready",
    "ZQ.GET queue delayed",
    "ZQ.GET queue claimed",
    "ZQ.GET queue dead",
    "ZLB.INFO board",
    "ZRL.INFO sliding",
    "ZRL.INFO fixed",
    "ZRL.INFO leaky",
    "ZRL.INFO throttle",
];

fn is_list(arg: &Arg) -> bool {
    let first = arg.parts.first().unwrap_or(arg);
    arg.multiple && arg.kind != "key" && arg.token.is_none() && first.token.is_none()
}

/// Whether an argument is optional and begins with a keyword.
fn is_option(arg: &Arg) -> bool {
    let begins = |arg: &Arg| arg.token.is_some();
    arg.optional && (begins(arg) || (!arg.parts.is_empty() && arg.parts.iter().any(begins)))
}

fn tokens<'a>(args: &'a [Arg], all: &mut Vec<&'a str>) {
    for arg in args {
        all.extend(arg.token.as_deref());
        tokens(&arg.parts, all);
    }
}

#[test]
fn options_stand_before_a_list_that_may_be_long_and_behind_the_arguments_otherwise() {
    let (_server, mut c) = start();
    let mut before_lists = BTreeSet::new();
    for Command { name, arguments, .. } in commands(&mut c) {
        let is_counted = arguments.iter().any(|arg| arg.name == "numkeys");
        let has_list = !is_counted && arguments.iter().any(|arg| !arg.optional && is_list(arg));
        let order: Vec<_> = arguments.iter().filter(|arg| arg.kind != "key").map(is_option).collect();
        if !order.contains(&true) {
            continue;
        }
        // The key comes first. A command without a list has its options last. A command with a list has its options
        // before the list.
        let is_sorted = order.is_sorted_by_key(|&is_option| if has_list { !is_option } else { is_option });
        assert!(is_sorted, "{name}: {order:?}");
        if has_list {
            before_lists.insert(name.to_uppercase());
        }
    }
    assert_eq!(
        before_lists.iter().map(String::as_str).collect::<Vec<_>>(),
        ["ZEXP.ADD", "ZEXP.EXPIRE", "ZLB.INCR", "ZLB.SET"]
    );
}

#[test]
fn reads_of_a_missing_key_answer_as_if_it_were_empty_and_maps_are_null() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG empty:queue PAUSED no");
    c.run("ZLB.CREATE empty:board DIM points");
    let mut nulls = BTreeSet::new();
    for &(name, _, call, _) in ours().filter(|(_, flags, ..)| flags.contains(&"readonly")) {
        let of = |key: &str| {
            let words: Vec<_> = call.split(' ').map(|word| if word.starts_with("a:") { key } else { word }).collect();
            words.join(" ")
        };
        let missing = c.reply(&of("missing"));
        if name.ends_with(".info") || name.ends_with(".stats") {
            assert_eq!(missing, "nil", "{name}");
            nulls.insert(name);
            continue;
        }
        let empty = match &name[..3] {
            "zq." => c.reply(&of("empty:queue")),
            "zlb" => c.reply(&of("empty:board")),
            // Sets and limits are never empty, so the test compares with another missing key.
            _ => c.reply(&of("missing:too")),
        };
        assert_eq!(missing, empty, "{name}");
        assert!(!missing.starts_with('!'), "{name}: {missing}");
    }
    c.script(&[("ZQ.CONFIG missing", "nil"), ("EXISTS missing missing:too", "0")]);
    assert_eq!(nulls.into_iter().collect::<Vec<_>>(), ["zlb.info", "zq.stats", "zrl.info"]);
}

/// If any of a command's keys is of another kind, the command refuses the call.
#[test]
fn keys_of_other_kinds_are_refused_and_left_alone() {
    let (server, mut c) = start();
    plant(&mut c);
    c.run_all(["SET text x", "HSET hash f v", "ZADD plain 1 a 2 b"]);
    c.run(&format!("ZADD ordinary {FAR} a 1 zeitset:expiring"));
    let mut stream = Stream::attach(&server);
    stream.take();
    for &(name, _, call, keys) in ours() {
        for key in ["text", "hash", "plain", "ordinary", "set", "sliding", "queue", "board"] {
            let error = match (&name[..3], key) {
                ("zex", "set") | ("zrl", "sliding") | ("zq.", "queue") | ("zlb", "board") => continue,
                ("zex", "plain" | "ordinary") if name == "zexp.adopt" => continue,
                ("zex", "plain" | "ordinary") => "!NOTEXPIRING ",
                ("zrl", "text") => "!NOTLIMIT ",
                _ => "!WRONGTYPE Operation against a key holding the wrong kind of value",
            };
            let before = c.trace(key);
            for own in keys.trim_matches(['[', ']']).split(' ').map(|own| own.trim_matches('\'')) {
                let words: Vec<_> = call.split(' ').map(|word| if word == own { key } else { word }).collect();
                c.script(&[(words.join(" "), error)]);
                assert_eq!(c.trace(key), before, "{words:?}");
            }
        }
    }
    assert_eq!(stream.take(), [""; 0]);
}

/// An argument may be any bytes. An error must be one line, begin with its code, and show no argument as a format.
#[test]
fn errors_are_clean_whatever_bytes_an_argument_has() {
    let (_server, mut c) = start();
    let mut errors = 0;
    for (name, _, call, _) in ours() {
        let words: Vec<_> = call.split(' ').map(str::as_bytes).collect();
        for at in 2..words.len() {
            for junk in [&b"5 "[..], b"\0", b"\r\n+OK\r\n", b"\xff\xfe", b"%s%n%s", &[b'9'; 5000]] {
                let mut words = words.clone();
                words[at] = junk;
                let Err(error) = c.try_call(redis::cmd(name).arg(&words[1..])) else { continue };
                let code = error.split(' ').next().unwrap_or_default();
                assert!(code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase()), "{error:?}");
                assert!(!error.contains(['\r', '\n', '\0']), "{error:?}");
                errors += 1;
            }
        }
    }
    assert!(errors > 300, "{errors}");
}

#[test]
fn boards_must_be_created() {
    let (_server, mut c) = start();
    let makes_one = ["zlb.create", "zlb.merge", "zlb.apply"];
    let changes =
        |name: &str, flags: &[&str]| name.starts_with("zlb.") && flags.contains(&"write") && !makes_one.contains(&name);
    let mut count = 0;
    for (name, _, call, _) in ours().filter(|(name, flags, ..)| changes(name, flags)) {
        c.script(&[(call.replace(" a:board", " missing").replace(" a:sum", " missing"), "!NOBOARD ")]);
        count += 1;
        assert_eq!(c.int("EXISTS missing"), 0, "{name}");
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn a_numkeys_that_is_too_large_is_answered_as_eval_does() {
    let (_server, mut c) = start();
    let mut count = 0;
    for Command { name, arguments, .. } in commands(&mut c) {
        let Some(at) = arguments.iter().position(|arg| arg.name == "numkeys") else { continue };
        let call = format!("{name} {}4 a b 1 1m 1m", "k ".repeat(at));
        let reply = c.try_run(&call.replace("4 a", "99 a")).unwrap_err();
        assert_eq!(reply, "ERR Number of keys can't be greater than number of args", "{name}");
        c.script(&[(call.replace("4 a", "0 a"), "!ERR numkeys should be greater than 0")]);
        count += 1;
    }
    assert_eq!(count, 3, "ZRL.MCHECK, ZQ.CLAIM, ZLB.MERGE");
}

/// Returns the RESP2 form: maps are arrays of names and values.
fn flat(value: Value) -> Value {
    match value {
        Value::Map(pairs) => Value::Array(pairs.into_iter().flat_map(|(name, value)| [name, flat(value)]).collect()),
        Value::Array(items) => Value::Array(items.into_iter().map(flat).collect()),
        other => other,
    }
}

#[test]
fn maps_are_maps_in_resp3_and_arrays_in_resp2() {
    let (server, mut c) = start();
    plant(&mut c);
    let mut c3 = server.resp3();
    for line in MAPS {
        let (in_2, in_3) = (c.run(line), c3.run(line));
        assert!(matches!(in_2, Value::Array(_)) && matches!(in_3, Value::Map(_)), "{line}");
        assert_eq!(show(&in_2), show(&flat(in_3)), "{line}");
    }
    // The board has an INT and a FLOAT dimension. INT values are integers in RESP2 and RESP3. FLOAT values are doubles
    // in RESP3.
    assert_eq!(c.reply("ZLB.GET board ann"), "[[0 5 '1.5']]");
    let Value::Array(rows) = c3.run("ZLB.GET board ann") else { panic!("no array") };
    let Value::Array(row) = &rows[0] else { panic!("{rows:?}") };
    assert!(matches!(row[..], [Value::Int(0), Value::Int(5), Value::Double(_)]), "{row:?}");
    assert!(matches!(c3.run("ZEXP.POP set 5"), Value::Set(_)), "as SPOP");
}

/// Names are in lower case. If a value is a time or a duration, the name ends with the unit, `_ms`.
#[test]
fn fields_have_one_form_and_name_their_unit() {
    let (_server, mut c) = start();
    plant(&mut c);
    let mut with_unit = BTreeSet::new();
    for line in MAPS {
        for (name, value) in map(&c.run(line)) {
            let name = name.trim_matches('\'').to_owned();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}: {name}");
            let has_unit = name.ends_with("_ms");
            match value {
                // Large numbers are times. The others are the durations that `plant` has set: 90 s, 2 h. A token is a
                // large number, but no time.
                Value::Int(number) if number > 100_000_000_000 || number == 90_000 || number == 7_200_000 => {
                    assert_eq!(has_unit, name != "token", "{line}: {name} {number}");
                }
                Value::Int(_) | Value::Nil => {}
                other => assert!(!has_unit, "{line}: {name} {}", show(&other)),
            }
            assert!(!["_s", "_us", "seconds", "time"].iter().any(|unit| name.ends_with(unit)), "{line}: {name}");
            if has_unit {
                with_unit.insert(name);
            }
        }
    }
    assert!(with_unit.len() > 12, "{with_unit:?}");
}

/// `ZEXP.TTL` returns seconds, as TTL does. A command or option that returns a TTL in milliseconds has PTTL in
/// its name.
#[test]
fn what_is_named_ttl_is_in_seconds_and_has_a_twin_in_milliseconds() {
    let (_server, mut c) = start();
    let all = commands(&mut c);
    let names: BTreeSet<_> = all.iter().map(|command| command.name.to_uppercase()).collect();
    assert!(names.contains("ZEXP.TTL"));
    for name in names.iter().filter(|name| name.ends_with(".TTL")) {
        assert!(names.contains(&name.replace(".TTL", ".PTTL")), "{name}");
    }
    let mut shown = Vec::new();
    for command in &all {
        let mut words = Vec::new();
        tokens(&command.arguments, &mut words);
        shown.extend(words.into_iter().filter(|word| word.starts_with("WITH") && word.contains("TTL")));
    }
    assert_eq!(shown, ["WITHPTTL"]);
}

#[test]
fn settings_are_named_as_their_options() {
    let (_server, mut c) = start();
    plant(&mut c);
    let config =
        commands(&mut c).into_iter().find(|command| command.name.eq_ignore_ascii_case("zq.config")).expect("there");
    let options: Vec<_> =
        config.arguments.iter().filter_map(|arg| arg.token.as_deref()).map(str::to_lowercase).collect();
    assert!(options.len() > 10, "{options:?}");
    let fields: Vec<_> = map(&c.run("ZQ.CONFIG queue")).into_keys().collect();
    let stats = map(&c.run("ZQ.STATS queue"));
    // The option MAXATTEMPTS has a field with another name: `max_attempts`, as in ZQ.GET.
    let is_of = |field: &str, option: &String| {
        let field = field.trim_matches('\'').replace("max_attempts", "maxattempts");
        field == *option || field.strip_prefix(option).is_some_and(|rest| rest.starts_with('_'))
    };
    for option in &options {
        assert!(fields.iter().any(|field| is_of(field, option)), "{option}: {fields:?}");
    }
    for field in &fields {
        assert!(options.iter().any(|option| is_of(field, option)), "{field}");
        assert!(stats.contains_key(field), "ZQ.STATS: {field}");
    }
}

#[test]
fn attempts_is_the_count_and_max_attempts_the_bound() {
    let (_server, mut c) = start();
    plant(&mut c);
    for command in commands(&mut c) {
        let mut words = Vec::new();
        tokens(&command.arguments, &mut words);
        assert!(!words.contains(&"ATTEMPTS"), "{}", command.name);
    }
    assert_eq!((c.field("ZQ.GET queue claimed", "attempts"), c.field("ZQ.GET queue claimed", "max_attempts")), (1, 7));
    for line in ["ZQ.CONFIG queue", "ZQ.STATS queue"] {
        let fields = map(&c.run(line));
        assert!(!fields.contains_key("'attempts'"), "{line}");
        assert_eq!(fields["'max_attempts'"], Value::Int(7), "{line}");
    }
}

/// A missing value is null. A zero is a count, or a setting that is off.
#[test]
fn no_value_is_null_and_never_zero() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH queue x ID a");
    c.run("ZLB.CREATE board DIM points");
    let mut zeros = BTreeSet::new();
    for line in ["ZQ.GET queue a", "ZLB.INFO board"] {
        let fields = map(&c.run(line));
        assert!(fields.values().any(|value| *value == Value::Nil), "{line}");
        zeros.extend(fields.into_iter().filter(|(_, value)| *value == Value::Int(0)).map(|(name, _)| name));
    }
    let zeros: Vec<_> = zeros.iter().map(|name| name.trim_matches('\'')).collect();
    assert_eq!(zeros, ["attempts", "distinct", "max_attempts", "members", "priority"]);
    c.run("ZQ.CANCEL queue a");
    assert_eq!(map(&c.run("ZQ.STATS queue"))["'oldest_ready_ms'"], Value::Nil);
}

#[test]
fn a_job_has_the_same_states_wherever_they_are_told() {
    let (_server, mut c) = start();
    plant(&mut c);
    for state in STATES {
        assert_eq!(c.text_field(&format!("ZQ.GET queue {state}"), "state"), state);
        assert_eq!(c.field("ZQ.STATS queue", state), 1, "{state}");
        let page = c.reply(&format!("ZQ.PEEK queue {}", state.to_uppercase()));
        assert!(page.starts_with(&format!("[['{state}' ")), "{page}");
    }
    let info = c.info("zeitset");
    let told = info.keys().filter_map(|name| name.strip_prefix("zeitset_jobs_")).filter(|name| !name.ends_with("_ms"));
    assert_eq!(told.collect::<BTreeSet<_>>(), STATES.into());
    for command in commands(&mut c) {
        let Some(state) = command.arguments.iter().find(|arg| arg.name == "state") else { continue };
        let mut words = Vec::new();
        tokens(std::slice::from_ref(state), &mut words);
        assert!(words.iter().all(|word| STATES.contains(&word.to_lowercase().as_str())), "{}: {words:?}", command.name);
    }
}
