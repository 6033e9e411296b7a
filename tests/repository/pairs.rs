//! docs/queue-options.md: each row has a test that bears its name, and each of these tests has a row.

use std::collections::BTreeSet;
use testkit::root;

#[test]
fn each_pair_of_options_on_the_page_has_a_test_of_its_name() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let (page, tests) = (read("docs/queue-options.md"), read("src/queues/model/tests/pairs.rs"));
    let (mut option, mut rows) = (String::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            option = heading.to_lowercase();
        } else if let Some(row) = line.strip_prefix("| ").filter(|row| !row.starts_with("with |")) {
            let other = row.split(' ').next().unwrap_or_default().to_lowercase();
            assert!(rows.insert(format!("{option}_and_{other}")), "{option} and {other}: two rows");
        }
    }
    let names = tests.split("#[test]\nfn ").skip(1).filter_map(|test| test.split('(').next());
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    assert!(rows.len() > 30 && rows == names, "{:?}", rows.symmetric_difference(&names).collect::<Vec<_>>());
}
