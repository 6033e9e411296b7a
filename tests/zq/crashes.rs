//! Crashes of the server and of workers, while clients push, claim and acknowledge jobs.

use redis::Value;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use testkit::{Client, Job, PATIENCE, Server, assert_agree, eventually, show};

/// The server is killed under load, and workers crash. Every acknowledged push is delivered, no job before its due
/// time, and each job is finished exactly once.
#[test]
fn nothing_is_lost_when_server_and_workers_die() {
    let mut server = Server::builder().config("appendonly yes\nappendfsync always").start();
    let due_of: Arc<Mutex<HashMap<String, i64>>> = Arc::default();
    let finished: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    let unsure: Arc<Mutex<HashSet<String>>> = Arc::default();
    for round in 0..3 {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for pusher in 0..2 {
            let (mut c, stop, due_of) = (server.client(), Arc::clone(&stop), Arc::clone(&due_of));
            threads.push(thread::spawn(move || {
                for n in 0.. {
                    let id = format!("{round}:{pusher}:{n}");
                    let due = c.try_run("PING").map(|_| c.now() + n % 4 * 20);
                    let Ok(due) = due else { return };
                    let Ok(reply) = c.try_run(&format!("ZQ.PUSH q payload ID {id} AT {due}ms")) else { return };
                    assert_eq!(show(&reply), format!("'{id}'"));
                    due_of.lock().unwrap().insert(id, due);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }));
        }
        for worker in 0..3 {
            let (c, stop, finished, unsure) =
                (server.client(), Arc::clone(&stop), Arc::clone(&finished), Arc::clone(&unsure));
            threads.push(thread::spawn(move || work(c, worker, &stop, &finished, &unsure)));
        }
        eventually(PATIENCE, "there is some load", || {
            finished.lock().unwrap().len() >= 60 * (round + 1) && due_of.lock().unwrap().len() >= 90 * (round + 1)
        });
        // The server is killed without notice to its clients.
        server.crash_and_restart();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let _ = thread.join();
        }
    }
    let stop = AtomicBool::new(false);
    let pushed: HashSet<String> = due_of.lock().unwrap().keys().cloned().collect();
    thread::scope(|scope| {
        scope.spawn(|| work(server.client(), 0, &stop, &finished, &unsure));
        eventually(PATIENCE * 3, "every acknowledged push is finished", || {
            let (finished, unsure) = (finished.lock().unwrap(), unsure.lock().unwrap());
            pushed.iter().all(|id| finished.contains_key(id) || unsure.contains(id))
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert!(finished.lock().unwrap().values().all(|&acks| acks == 1), "a job was finished twice");
    assert_agree(&server, &[]);
}

/// Claims and finishes jobs until `stop`, or until the server is gone. Does not finish one in seven jobs, as if the
/// worker had crashed.
fn work(
    mut c: Client,
    worker: usize,
    stop: &AtomicBool,
    finished: &Mutex<HashMap<String, u32>>,
    unsure: &Mutex<HashSet<String>>,
) {
    for n in worker.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(reply) = c.try_run("ZQ.CLAIM 1 q LEASE 150ms BLOCK 50ms") else { return };
        for Job { id, token, .. } in Job::all(&reply) {
            if n % 7 == 6 {
                continue;
            }
            match c.try_run(&format!("ZQ.ACK q {id} {token}")) {
                Ok(Value::Int(1)) => *finished.lock().unwrap().entry(id).or_default() += 1,
                Ok(_) => {}
                // The push may or may not have run.
                Err(_) => drop(unsure.lock().unwrap().insert(id)),
            }
        }
    }
}
