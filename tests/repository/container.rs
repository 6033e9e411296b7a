//! The Docker image, as far as tests without Docker are possible. The steps of its last stage run on a temporary copy
//! of this machine's system. Then the image's command runs as the image's user.

use super::package::{empty_root, target_folder};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use testkit::{Client, PATIENCE, Program, eventually, free_port, root};

fn read(file: &str) -> String {
    fs::read_to_string(root().join("packaging/docker").join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the instructions of the image's stages in order, each with its arguments.
fn instructions() -> Vec<(String, String)> {
    let file = read("Dockerfile").replace("\\\n", " ");
    let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut stages, mut stage): (Vec<(String, Vec<_>)>, _) = (Vec::new(), Vec::new());
    let mut from = String::new();
    let mut server = "";
    for line in lines {
        let (word, arguments) = line.split_once(' ').expect("an instruction has arguments");
        if let Some(default) = line.strip_prefix("ARG SERVER=") {
            server = default;
        } else if word == "FROM" {
            stages.push((std::mem::take(&mut from), std::mem::take(&mut stage)));
            from = arguments.replace("$SERVER", server);
        } else {
            stage.push((word.to_owned(), arguments.to_owned()));
        }
    }
    let base = stages
        .into_iter()
        .find(|(name, _)| name.ends_with(&format!(" AS {from}")))
        .expect("the stage it is based on")
        .1;
    [base, stage].concat()
}

/// Returns the words of `["a", "b"]`.
fn words(list: &str) -> Vec<String> {
    let inner = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).expect("a list");
    inner.split(", ").map(|word| word.trim_matches('"').to_owned()).collect()
}

#[test]
fn nothing_is_published_beyond_this_machine() {
    let (docker, compose) = (read("Dockerfile"), read("compose.yaml"));
    let runs = docker.lines().filter_map(|line| line.split_once("docker run -p ")?.1.split(' ').next());
    let mut published: Vec<_> = runs.collect();
    let ports = compose.lines().skip_while(|line| line.trim() != "ports:");
    published.extend(ports.filter_map(|line| line.trim().strip_prefix("- \"")));
    assert!(published.len() >= 4, "{published:?}");
    for port in published {
        assert!(port.starts_with("127.0.0.1:"), "{port}");
    }
}

#[test]
#[ignore = "wants a release build, and root: make test-deb"]
fn the_docker_image_starts_as_its_user_and_keeps_what_is_written() {
    let works = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|it| it.status.success())
    };
    if !works("unshare", &["--mount", "true"]) || !works("id", &["redis"]) {
        eprintln!("skipped: the Docker image needs root, unshare and the user of Debian's redis-server");
        return;
    }
    let system = empty_root("docker");
    let (target, source) = (target_folder(), root().display());
    // Mounts an overlay on this machine's system. The mount is visible only to this process, and ends with it.
    let log = system.with_extension("log");
    let mut script = format!(
        "exec >'{}' 2>&1
         mount -t tmpfs none '{system}' && cd '{system}' && mkdir upper work image
         mount -t overlay overlay -o \"lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work\" image
         cd image && rm -rf data\n",
        log.display(),
        system = system.display()
    );
    let (mut folder, mut user, mut command) = ("/".to_owned(), "root".to_owned(), VecDeque::new());
    for (instruction, arguments) in instructions() {
        match &*instruction {
            // This machine has the packages that the step installs.
            "RUN" if arguments.starts_with("apt-get ") => {}
            "RUN" => script += &format!("chroot --userspec={user} . sh -c 'cd {folder} && {arguments}'\n"),
            "COPY" => {
                let (from, to) = arguments.rsplit_once(' ').expect("from and to");
                let from = match from.strip_prefix("--from=build /source/target/") {
                    Some(built) => format!("{}/{built}", target.display()),
                    None => format!("{source}/{from}"),
                };
                script += &format!("install -D -m 644 {from} ./{to}\n");
            }
            "WORKDIR" => {
                folder = arguments;
                // Docker creates a missing folder as root, not as USER.
                script += &format!("mkdir -p .{folder}\n");
            }
            "USER" => user = arguments,
            "CMD" => command = words(&arguments).into(),
            "VOLUME" | "EXPOSE" | "HEALTHCHECK" => {}
            _ => panic!("{instruction}: the test does not know it"),
        }
    }
    // The server listens on a free port, and only on this machine.
    let port = free_port();
    command.extend(["--bind", "127.0.0.1", "--port", &port.to_string()].map(str::to_owned));
    let command = Vec::from(command).join(" ");
    script += &format!("exec chroot --userspec={user} . sh -c 'cd {folder} && exec {command}'\n");
    let mut unshare = Command::new("unshare");
    let mut server = Program::start(unshare.args(["--mount", "sh", "-euc", &script]));

    let mut client = None;
    eventually(PATIENCE, "the image serves", || {
        client = Client::connect(port).ok();
        assert!(!server.has_ended(), "it ends: {}", fs::read_to_string(&log).unwrap_or_default());
        client.is_some()
    });
    let mut c = client.expect("it serves");
    c.script(&[("CONFIG GET dir", "['dir' '/data']"), ("ZQ.PUSH jobs payload ID a", "'a'"), ("SAVE", "+OK")]);
    assert_eq!(c.info("persistence")["aof_enabled"], "1");
    assert_eq!(c.info("persistence")["aof_last_write_status"], "ok");
    let process = format!("/proc/{}", c.info("server")["process_id"]);
    assert_ne!(fs::metadata(process).expect("the server's process").uid(), 0, "it does not run as root");
    let _ = c.try_run("SHUTDOWN");
}
