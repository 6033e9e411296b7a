//! Tests of the stored form. Optional parts that a job does not have take no byte.

use super::super::{Fate, NackOptions, Push};
use super::{Pair, encoded};
use crate::queues::model::job::Job;

/// The stored form omits all optional fields of these jobs, because their values follow from the ID, the due time and
/// the token.
#[test]
fn a_job_takes_no_byte_for_what_it_does_not_have() {
    assert_eq!(size_of::<Job>(), 88);
    let mut pair = Pair::new();
    let empty = encoded(&pair.primary).len();
    pair.push(1_795_306_720_594, &Push { payload: b"made up", due: 1_795_306_720_594, ..Push::default() });
    pair.job(1_795_306_720_600, "own", 1_795_306_720_600);
    let body = |id: &str, payload: &str| 2 + id.len() + payload.len();
    let bodies = body("1795306720594-0", "made up") + body("own", "payload");
    // Each job has a state, a due time, a priority and a push number. The queue has the last ID and the counter of
    // pushes.
    assert_eq!(encoded(&pair.primary).len() - empty - bodies, 2 * (1 + 6 + 1 + 1) + 5 + 1);
    let got = pair.claim(1_795_306_720_700, 1_795_306_730_700, 1);
    assert_eq!((got.len(), pair.primary.jobs.iter().filter(|job| job.rare.is_some()).count()), (1, 0));
}

#[test]
fn what_is_noted_of_a_job_goes_with_it() {
    let mut pair = Pair::new();
    let empty = pair.primary.memory_usage();
    for round in 0..100 {
        pair.job(round, "a", round);
        let token = pair.claim_as(round, round + 5, 1, "worker")[0].token;
        let options = NackOptions { error: b"out of memory", ..NackOptions::default() };
        pair.nack_with(round, "a", token, Fate::Default, options);
        assert!(
            pair.primary.owned_bytes > b"apayload".len() + b"workerout of memory".len()
                && pair.primary.memory_usage() > empty
        );
        assert!(pair.cancel(round, "a"));
        assert_eq!(pair.primary.owned_bytes, 0);
    }
}
