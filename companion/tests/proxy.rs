//! Tests `zeitset ui` below a path of a real nginx, with the configuration from docs/operations.md.

use crate::support::{Running, companion, eventually, fetch};
use std::process::{Child, Command, Stdio};
use testkit::{Server, free_port, root};

struct Nginx {
    child: Child,
    folder: std::path::PathBuf,
    address: String,
}

impl Nginx {
    /// Starts nginx with this `location` block. Returns `None` if nginx is not installed.
    fn start(location: &str) -> Option<Nginx> {
        let (port, folder) = (free_port(), std::env::temp_dir().join(format!("zeitset-nginx-{}", std::process::id())));
        std::fs::create_dir_all(&folder).expect("a folder");
        let temporary =
            ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {name};\n"));
        let conf = format!(
            "daemon off; master_process off; pid pid; error_log stderr;
             events {{}}
             http {{ access_log off; {} server {{ listen 127.0.0.1:{port}; server_name ui.example.org; {location} }} }}",
            temporary.concat()
        );
        std::fs::write(folder.join("nginx.conf"), conf).expect("a file");
        let mut nginx = Command::new("nginx");
        nginx.arg("-p").arg(&folder).args(["-e", "stderr", "-c", "nginx.conf"]).stdin(Stdio::null());
        let Ok(child) = nginx.spawn() else {
            eprintln!("skipped: nginx is not installed (on Debian: apt-get install nginx-light)");
            return None;
        };
        let nginx = Nginx { child, folder, address: format!("127.0.0.1:{port}") };
        eventually("nginx listens", || std::net::TcpStream::connect(&nginx.address).is_ok());
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the nginx configuration from the page of operations.
fn documented() -> String {
    let page = std::fs::read_to_string(root().join("docs/operations.md")).expect("the page");
    let lines = page.split("```nginx\n").nth(1).and_then(|rest| rest.split("```").next());
    lines.expect("lines for nginx").to_owned()
}

#[test]
fn below_a_path_of_nginx_all_links_forms_and_assets_lead_back_there() {
    let server = Server::start();
    let mut c = server.client();
    c.run("ZQ.PUSH mails payload ID a");
    let url = server.url();
    // The requests below name no port, because a browser leaves out the default port of the scheme.
    let mut command = companion(&["ui", "--redis", &url, "--host", "ui.example.org", "--write", "--interval", "100ms"]);
    command.env("ZEITSET_PASSWORD", "correct horse");
    let ui = Running::start(command);
    let location = documented();
    assert!(location.contains("127.0.0.1:8080"), "{location}");
    let Some(nginx) = Nginx::start(&location.replace("127.0.0.1:8080", &ui.address)) else { return };
    let browser = [
        ("Host", "ui.example.org"),
        ("Authorization", "Basic eDpjb3JyZWN0IGhvcnNl"),
        ("Origin", "https://ui.example.org"),
    ];
    let get = |path: &str| fetch(&nginx.address, "GET", path, &browser, "");

    let (status, answer) = get("/zeitset");
    assert!(status == 301 && answer.contains("/zeitset/\r\n"), "{answer}");
    // Follows every link, from page to page, like a browser.
    let (mut todo, mut seen) = (vec!["/zeitset/".to_owned()], std::collections::BTreeSet::new());
    while let Some(path) = todo.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let (status, page) = get(&path);
        assert_eq!(status, 200, "{path}: {page}");
        let links = [" href=\"", " src=\""].into_iter().flat_map(|attribute| page.split(attribute).skip(1));
        let links = links.filter_map(|rest| rest.split('"').next());
        todo.extend(links.map(|link| format!("/zeitset/{}", link.trim_start_matches("./").replace("&amp;", "&"))));
    }
    for path in [
        "assets/style.css",
        "assets/live.js",
        "assets/icon.svg",
        "queue?key=mails&tab=settings",
        "job?key=mails&id=a",
        "workers",
    ] {
        assert!(seen.contains(&format!("/zeitset/{path}")), "{path} is linked: {seen:?}");
    }

    let (_, page) = get("/zeitset/queue?key=mails");
    let token = page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form");
    assert!(page.contains("action=\"act\""), "{page}");
    let post = |path: &str, headers: &[(&str, &str)]| {
        fetch(&nginx.address, "POST", path, headers, &format!("token={token}&key=mails&do=pause"))
    };
    let (status, answer) = post("/zeitset/act", &browser);
    assert!(status == 303 && answer.to_lowercase().contains("location: queue?key=mails&done=paused"), "{answer}");
    assert_eq!(c.text_field("ZQ.CONFIG mails", "paused"), "yes");
    let foreign = [browser[0], browser[1], ("Origin", "https://evil.example")];
    assert_eq!(post("/zeitset/act", &foreign).0, 403, "a form of another page");
}
