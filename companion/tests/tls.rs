//! Servers with TLS: `rediss://`, a private certificate authority, and a client certificate.

use crate::support::{companion, printed};
use redis::cmd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{Server, free_port};

/// Creates an authority, and certificates for the server and a client. Returns `None` if openssl is not installed.
fn certificates(folder: &Path) -> Option<()> {
    let openssl = |words: &[&str]| {
        let mut command = Command::new("openssl");
        let key = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"];
        command.args(key).args(words).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = command.output().ok()?;
        assert!(output.status.success(), "openssl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Some(())
    };
    openssl(&["-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt"])?;
    for (name, of) in [("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")] {
        let (key, certificate, subject) = (format!("{name}.key"), format!("{name}.crt"), format!("/CN={name}"));
        let by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE", "-addext", of];
        openssl(&[&by[..], &["-subj", &subject, "-keyout", &key, "-out", &certificate]].concat())?;
    }
    Some(())
}

/// Starts a server with TLS. Returns its port and the folder of its certificates. Returns `None` if a program is not
/// installed.
fn server() -> Option<(Server, u16, PathBuf)> {
    let server = Server::start();
    let folder = server.folder().to_owned();
    if certificates(&folder).is_none() {
        eprintln!("skipped: openssl is not installed");
        return None;
    }
    let mut c = server.client();
    for _ in 0..10 {
        let port = free_port();
        let file = |name: &str| folder.join(name).display().to_string();
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("tls-port").arg(port).arg("tls-auth-clients").arg("yes");
        for (option, name) in
            [("tls-cert-file", "server.crt"), ("tls-key-file", "server.key"), ("tls-ca-cert-file", "ca.crt")]
        {
            set.arg(option).arg(file(name));
        }
        match c.try_call(&set) {
            Ok(_) => return Some((server, port, folder)),
            Err(error) if error.contains("Unknown option") => {
                eprintln!("skipped: this server was built without TLS");
                return None;
            }
            // Another process has taken the port.
            Err(error) => assert!(error.contains("listen"), "{error}"),
        }
    }
    panic!("ten ports in a row were taken");
}

#[test]
fn a_server_with_tls_is_asked_by_rediss() {
    let Some((server, port, folder)) = server() else { return };
    server.client().run("ZQ.PUSH mails payload");
    let file = |name: &str| folder.join(name).display().to_string();
    let (ca, cert, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let url = format!("rediss://127.0.0.1:{port}");
    let run = |words: &[&str]| companion(words).output().expect("it starts");
    let all = ["--cacert", &ca, "--cert", &cert, "--key", &key];

    let page = printed(run(&[&["metrics", "--once", "--redis", &url], &all[..]].concat()));
    assert!(page.contains("\nzeitset_up 1\n") && page.contains(r#"zeitset_queue_jobs{queue="mails",state="ready"} 1"#));
    let picture = printed(run(&[&["top", &url, "--once"], &all[..]].concat()));
    assert!(picture.contains("mails"), "{picture}");
    // Without --cacert, the system's authorities apply. SSL_CERT_FILE replaces them with the test's authority.
    let mut command = companion(&["metrics", "--once", "--redis", &url, "--cert", &cert, "--key", &key]);
    assert!(printed(command.env("SSL_CERT_FILE", &ca).output().expect("it starts")).contains("\nzeitset_up 1\n"));

    let output = run(&["metrics", "--once", "--redis", &format!("redis://127.0.0.1:{port}")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("if the server requires TLS"), "{output:?}");

    for (words, said) in [
        // First the client does not trust the server's certificate. Then the server requires a client certificate.
        (&["--redis", &url, "--cacert", &cert, "--cert", &cert, "--key", &key][..], "certificate"),
        (&["--redis", &url, "--cacert", &ca], "certificate"),
        (&["--redis", &server.url(), "--cacert", &ca], "need an address that begins with rediss://"),
        (&["--redis", &url, "--cacert", &file("nothing.crt")], "nothing.crt: No such file"),
        (&["--redis", &url, "--cacert", &file("log")], "log is no PEM file"),
        (&["--redis", &url, "--cert", &cert], "--key"),
    ] {
        let output = run(&[&["top", "--once"], words].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.to_lowercase().contains(&said.to_lowercase()), "{words:?}: {error}");
    }
}
