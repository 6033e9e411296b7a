//! Tests of the serving order.

use super::*;
use proptest::prelude::*;

fn any_node() -> impl Strategy<Value = JobNode> {
    // Uses few values, so that many nodes are equal. Some values are extreme.
    let time = prop_oneof![0..4_u64, Just(1 << 53), 1_700_000_000_000..1_700_000_000_004_u64];
    let priority = prop_oneof![-2..3_i32, Just(i32::MIN), Just(i32::MAX)];
    (time, priority, 0..4_u64).prop_map(JobNode::new)
}

proptest! {
    #[test]
    fn the_job_with_the_lower_rank_is_served_first(
        a in any_node(),
        b in any_node(),
        aging in prop_oneof![Just(0), 1..3_u64, Just(1 << 53)],
        by_push in any::<bool>(),
    ) {
        let order = ServingOrder { aging, by_push, by_key: false };
        prop_assert_eq!(order.is_before(&a, &b), order.rank(&a) < order.rank(&b));
    }
}
