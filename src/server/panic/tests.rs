use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Runs a test of this file in its own process. Returns the exit status.
fn run_apart(test: &str) -> std::process::ExitStatus {
    let tests = std::env::current_exe().expect("the tests");
    let child = Command::new(tests).args(["--exact", "--ignored", test]).output();
    child.expect("the tests run").status
}

#[test]
fn what_panics_before_it_has_begun_is_survived_and_nothing_else() {
    assert!(run_apart("server::panic::tests::before").success());
    assert_eq!(run_apart("server::panic::tests::after").signal(), Some(libc::SIGABRT));
}

#[test]
#[ignore = "run by the test above"]
fn before() {
    assert_eq!(catch_panic(|| 7), Some(7));
    assert_eq!(catch_panic(note_irreversible), Some(()));
    assert_eq!(catch_panic(|| panic!()), None::<()>, "what has begun has ended");
}

#[test]
#[ignore = "run by the test above"]
fn after() {
    catch_panic(|| {
        note_irreversible();
        assert_eq!(catch_panic(|| panic!()), None::<()>, "what is within has begun nothing");
        catch_panic(|| ());
        panic!("and this has");
    });
}
