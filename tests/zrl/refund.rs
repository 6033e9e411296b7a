//! ZRL.REFUND returns units that an earlier call took.

use testkit::start;

#[test]
fn no_more_is_given_back_than_is_held() {
    let (_server, mut c) = start();
    for algorithm in ["SLIDING", "FIXED", "LEAKY"] {
        let at = c.verdict(&format!("ZRL.CHECK k 100 30d {algorithm} COST 5")).charged_until;
        c.script(&[(format!("ZRL.REFUND k 3 AT {at}"), "3"), (format!("ZRL.REFUND missing 1 AT {at}"), "0")]);
        assert_eq!(c.verdict(&format!("ZRL.PEEK k 100 30d {algorithm}")).remaining, 98);
        c.script(&[
            (format!("ZRL.REFUND k 9 AT {at}"), "2"),
            (format!("ZRL.REFUND k 1 AT {at}"), "0"),
            ("EXISTS k missing".into(), "0"),
        ]);
    }
}
