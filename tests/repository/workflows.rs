//! The permissions of the repository's workflows, and the actions that they use.

use std::fs;
use std::path::Path;

/// Returns the name and the text of each workflow file.
fn workflows() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let entries = fs::read_dir(folder).expect("the workflows").flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).expect("text"))
        })
        .collect()
}

/// A tag can be moved to other code; a commit cannot.
#[test]
fn actions_are_named_by_their_commit_and_say_which_version_it_is() {
    let mut seen = 0;
    for (name, text) in workflows() {
        for line in text.lines().filter_map(|line| line.split_once("uses: ").map(|(_, used)| used)) {
            let (_, version) = line.split_once('@').unwrap_or_else(|| panic!("{name}: {line}"));
            let (commit, tag) = version.split_once(" # v").unwrap_or_else(|| panic!("{name}: {line}"));
            assert!(commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{name}: {line}");
            assert!(tag.starts_with(|c: char| c.is_ascii_digit()), "{name}: {line}");
            seen += 1;
        }
    }
    assert!(seen > 5, "the workflows are read");
}

#[test]
fn only_the_job_that_publishes_may_write_and_it_waits_for_the_tests() {
    for (name, text) in workflows() {
        let (head, jobs) = text.split_once("\njobs:\n").expect("jobs");
        assert!(head.contains("permissions:\n  contents: read"), "{name}");
        // A job begins with its name, indented by two blanks.
        let starts = jobs.match_indices("\n  ").filter(|(at, _)| jobs.as_bytes()[at + 3].is_ascii_lowercase());
        let mut bounds: Vec<_> = std::iter::once(0).chain(starts.map(|(at, _)| at)).collect();
        bounds.push(jobs.len());
        for job in bounds.windows(2).map(|pair| &jobs[pair[0]..pair[1]]) {
            let title = job.trim_start().split(':').next().expect("a name");
            assert_eq!(job.contains(": write"), title == "publish", "{name}: {title}");
            if name == "release.yml" && title != "test" {
                assert!(job.contains("needs:"), "{name}: {title} does not wait for the tests");
            }
            assert!(title != "publish" || !job.contains("make"), "what may write builds nothing");
        }
    }
}
