//! `make demo`: starts the shop and its page, which shows that jobs are processed. Ctrl-C ends all processes.

use crate::support::{eventually, fetch};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use testkit::{Client, Signal, free_port, module, root, signal_group};

#[test]
fn the_demo_opens_a_shop_and_ctrl_c_closes_it() {
    let (port, folder) = (free_port(), std::env::temp_dir().join(format!("zeitset-demo-{}", std::process::id())));
    let mut demo = Command::new(root().join("scripts/demo.sh"));
    demo.arg(module()).arg(env!("CARGO_BIN_EXE_zeitset")).arg(&folder).args([&port.to_string(), "127.0.0.1:0"]);
    // A terminal sends Ctrl-C to all processes of a group.
    let mut demo = demo.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("bash");
    let mut lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
    let address = lines.find_map(|line| Some(line.ok()?.split_once("http://")?.1.split('/').next()?.to_owned()));
    let address = address.expect("the page's address");
    let shows = |path: &str, text: &str| {
        eventually(&format!("{path} shows {text}"), || fetch(&address, "GET", path, &[], "").1.contains(text));
    };
    shows("/queues", "orders");
    shows("/queue?key=orders&tab=groups", "ann");
    shows("/workers", "packer-");
    shows("/limits", "search:eve");
    shows("/boards?key=sellers", "Books &amp; Co");
    let mut c = Client::connect(port).expect("the server");
    eventually("jobs fail", || c.field("ZQ.STATS orders", "nacked") > 0);
    eventually("jobs are finished", || c.field("ZQ.STATS orders", "acked") > 3);

    signal_group(&demo, Signal::INT);
    eventually("it ends", || demo.try_wait().is_ok_and(|status| status.is_some()));
    let is_listening = |address: &str| std::net::TcpStream::connect(address).is_ok();
    assert!(!is_listening(&address) && !is_listening(&format!("127.0.0.1:{port}")));
    assert!(!folder.join(port.to_string()).exists(), "its data are gone");
    let _ = std::fs::remove_dir(&folder);
}
