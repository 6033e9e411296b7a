//! The stored form: what 0.1 stored is read, and what came since costs nothing where it is not used.

use super::super::{Manner, Nack, Push, Queue};
use super::{Pair, encoded};
use crate::model::queue::job::Job;

/// A job as it was when a slot took 96 bytes, with all that was known of it then.
fn plain(pair: &mut Pair) {
    pair.push(1_795_306_720_594, &Push { payload: b"made up", due: 1_795_306_720_594, ..Push::default() });
    pair.job(1_795_306_720_600, "own", 1_795_306_720_600);
    let got = pair.claim(1_795_306_720_700, 1_795_306_730_700, 1);
    assert_eq!(got.len(), 1);
}

/// A job with none of created, claimed, failed, worker and error that is not told by its id, its time and its token.
#[test]
fn a_job_without_optional_fields_takes_not_one_byte_more_than_in_0_1() {
    assert_eq!(size_of::<Job>(), 96);
    let mut pair = Pair::new();
    plain(&mut pair);
    assert_eq!(pair.primary.notes.memory_usage(), 0);
    let mut as_0_1 = encoded(&pair.primary);
    // The version, and behind the 20 numbers of settings and totals the number of further ones.
    assert_eq!(as_0_1[0], 3);
    as_0_1[0] = 1;
    let numbers = as_0_1.iter().enumerate().filter(|(_, byte)| **byte < 0x80).nth(20).expect("20 numbers behind it").0;
    assert_eq!(as_0_1.remove(numbers + 1), 0, "no further numbers");
    assert_eq!(as_0_1.pop(), Some(0), "the end");
    let again = Queue::decode(&mut super::ByteReader(&as_0_1)).expect("0.1 would have written it so");
    assert_eq!(again.len(), 2);
}

#[test]
fn what_is_noted_of_a_job_goes_with_it() {
    let mut pair = Pair::new();
    let empty = pair.primary.notes.memory_usage();
    for round in 0..100 {
        pair.job(round, "a", round);
        let token = pair.claim_as(round, round + 5, 1, "worker")[0].token;
        let manner = Manner { error: b"out of memory", ..Manner::default() };
        pair.nack_with(round, "a", token, Nack::Default, manner);
        assert!(pair.primary.notes.memory_usage() > empty);
        assert!(pair.cancel(round, "a"));
        assert_eq!(pair.primary.notes.memory_usage(), empty);
    }
}
