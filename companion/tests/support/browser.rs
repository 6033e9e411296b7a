//! A headless Chromium, driven through ChromeDriver as the W3C's WebDriver standard describes.

use super::{PATIENCE, found};
use base64::Engine;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Keys of WebDriver.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const ESCAPE: &str = "\u{e00c}";

/// A node of the accessibility tree.
pub struct Node {
    pub id: String,
    pub parent: String,
    pub is_ignored: bool,
    pub role: String,
    pub name: String,
    properties: Vec<Value>,
}

impl Node {
    /// Returns a property, such as `level` of a heading. Null if the node has none of this name.
    pub fn property(&self, name: &str) -> Value {
        let found = self.properties.iter().find(|property| property["name"] == name);
        found.map_or(Value::Null, |property| property["value"]["value"].clone())
    }
}

pub struct Browser {
    driver: Child,
    profile: PathBuf,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts Chromium. If chromedriver is not installed, prints that the test is skipped and returns `None`.
    pub fn open() -> Option<Browser> {
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut driver) = started else {
            eprintln!("skipped: chromedriver is not installed (on Debian: apt-get install chromium chromium-driver)");
            return None;
        };
        let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok()
        });
        let port = port.expect("chromedriver tells its port");
        let profile = std::env::temp_dir().join(format!("zeitset-browser-{}-{port}", std::process::id()));
        let mut browser = Browser { driver, profile, port, session: String::new() };
        let profile = format!("--user-data-dir={}", browser.profile.display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--force-color-profile=srgb",
            &profile,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
        }}});
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {session}")).to_owned();
        Some(browser)
    }

    /// Returns the `value` of a response. If WebDriver reports an error, the value has a field `error`.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver listens");
        socket.set_read_timeout(Some(PATIENCE * 4)).expect("a timeout");
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n", self.port);
        let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        socket.write_all(format!("{head}{body}").as_bytes()).expect("chromedriver reads");
        // ChromeDriver may leave the connection open, so Content-Length tells where the response ends. The functions
        // below read again after EINTR, which a socket with a timeout returns if the process was stopped and continued.
        let mut socket = BufReader::new(socket);
        let mut length = None;
        loop {
            let mut line = String::new();
            assert!(
                socket.read_line(&mut line).expect("chromedriver answers") > 0,
                "the response has no end of its head"
            );
            match line.to_lowercase().trim_end().split_once(':') {
                Some(("content-length", bytes)) => length = Some(bytes.trim().parse().expect("a length")),
                None if line == "\r\n" => break,
                _ => {}
            }
        }
        let mut body = vec![0; length.expect("a length")];
        socket.read_exact(&mut body).expect("chromedriver answers");
        let mut json: Value = serde_json::from_slice(&body).expect("JSON");
        json["value"].take()
    }

    fn call(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    fn must(&self, path: &str, body: &Value) -> Value {
        let value = self.call(path, body);
        assert!(value.get("error").is_none(), "{path} {body}: {value}");
        value
    }

    #[track_caller]
    pub fn go(&self, url: &str) {
        self.must("/url", &json!({"url": url}));
    }

    pub fn size(&self, width: u32, height: u32) {
        self.must("/window/rect", &json!({"width": width, "height": height}));
    }

    /// Emulates a screen, which may be narrower than a window can be.
    pub fn screen(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics});
        self.must("/goog/cdp/execute", &command);
    }

    pub fn dark(&self, is_dark: bool) {
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.must("/goog/cdp/execute", &json!({"cmd": "Emulation.setEmulatedMedia", "params": feature}));
    }

    /// Runs a function body in the page, and returns its result.
    #[track_caller]
    pub fn script(&self, body: &str) -> Value {
        self.must("/execute/sync", &json!({"script": body, "args": []}))
    }

    /// Runs a function body in the page, and returns the value to which its promise resolves.
    #[track_caller]
    pub fn promise(&self, body: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; (async () => {{ {body} }})().then(done, (error) => done({{ error: String(error) }}))"
        );
        self.must("/execute/async", &json!({"script": script, "args": []}))
    }

    #[track_caller]
    pub fn text(&self) -> String {
        self.script("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    fn element(&self, by: &str, what: &str) -> Option<String> {
        let value = self.call("/element", &json!({"using": by, "value": what}));
        value.as_object()?.iter().find(|(name, _)| name.starts_with("element-"))?.1.as_str().map(str::to_owned)
    }

    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.press("css selector", selector);
    }

    #[track_caller]
    pub fn follow(&self, text: &str) {
        self.press("partial link text", text);
    }

    #[track_caller]
    fn press(&self, by: &str, what: &str) {
        // If the script replaces the element before the click, the next attempt finds the new one.
        found(&format!("{what} can be pressed; the page says:\n{}", self.text()), || {
            let id = self.element(by, what)?;
            let value = self.call(&format!("/element/{id}/click"), &json!({}));
            value.get("error").is_none().then_some(())
        });
    }

    #[track_caller]
    pub fn fill(&self, selector: &str, text: &str) {
        let id = self.element("css selector", selector).unwrap_or_else(|| panic!("{selector} is not there"));
        self.must(&format!("/element/{id}/clear"), &json!({}));
        self.must(&format!("/element/{id}/value"), &json!({"text": text}));
    }

    /// Presses and releases each key. WebDriver has a character for each key without text: see [`TAB`].
    #[track_caller]
    pub fn keys(&self, keys: &str) {
        let event = |kind: &str, key: char| json!({"type": kind, "value": key.to_string()});
        let events: Vec<Value> = keys.chars().flat_map(|key| [event("keyDown", key), event("keyUp", key)]).collect();
        self.must("/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": events}]}));
    }

    /// Returns the nodes of the accessibility tree that screen readers get.
    #[track_caller]
    pub fn tree(&self) -> Vec<Node> {
        let reply = self.must("/goog/cdp/execute", &json!({"cmd": "Accessibility.getFullAXTree", "params": {}}));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let nodes = reply["nodes"].as_array().expect("nodes").iter().map(|node| Node {
            id: node["nodeId"].as_str().unwrap_or_default().to_owned(),
            parent: node["parentId"].as_str().unwrap_or_default().to_owned(),
            is_ignored: node["ignored"] == true,
            role: text(&node["role"]),
            name: text(&node["name"]).trim().to_owned(),
            properties: node["properties"].as_array().cloned().unwrap_or_default(),
        });
        nodes.collect()
    }

    #[track_caller]
    pub fn sees(&self, text: &str) {
        let mut seen = String::new();
        let start = std::time::Instant::now();
        while !seen.contains(text) {
            assert!(start.elapsed() < PATIENCE, "{text:?} is not seen on:\n{seen}");
            seen = self.text();
        }
    }

    /// Takes a screenshot of the window. `make pictures` saves it in docs/pictures.
    #[track_caller]
    pub fn picture(&self, name: &str) {
        let folder = testkit::root().join("docs/pictures");
        let value = self.ask("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        let png = base64::engine::general_purpose::STANDARD.decode(value.as_str().expect("a picture")).expect("base64");
        assert!(png.starts_with(b"\x89PNG") && png.len() > 5_000, "an empty picture of {name}");
        if std::env::var_os("ZEITSET_DOCS").is_some() {
            std::fs::write(folder.join(format!("{name}.png")), png).expect("docs/pictures can be written");
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
