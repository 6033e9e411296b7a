//! Draws the times at which each of the three algorithms of ZRL.CHECK admits requests in a real run.
//! `cargo run --example algorithms` writes `docs/pictures/{sliding,fixed,leaky}.svg` in eight seconds.
//!
//! A client asks for units of a limit of 10 per 2 s, one by one. It starts half a second after the start of a window.

use std::fmt::Write as _;
use std::time::Duration;
use testkit::{Client, Server};

const LIMIT: u64 = 10;
const WINDOW_MS: u64 = 2000;
const LENGTH_MS: u64 = 7000;

/// When the client starts, and the interval of its calls.
const BEGIN_MS: u64 = 500;
const EVERY: Duration = Duration::from_millis(10);

fn main() {
    let server = Server::start();
    let mut client = server.client();
    // The picture begins at the start of a FIXED window, so that its windows can be drawn.
    let start = (time_ms(&mut client) / WINDOW_MS + 1) * WINDOW_MS;
    while time_ms(&mut client) < start + BEGIN_MS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut admitted = ["SLIDING", "FIXED", "LEAKY"].map(|algorithm| (algorithm, Vec::new()));
    loop {
        let now = time_ms(&mut client) - start;
        if now >= LENGTH_MS {
            break;
        }
        for (algorithm, times) in &mut admitted {
            let reply = client.run(&format!("ZRL.CHECK {algorithm} {LIMIT} {WINDOW_MS}ms {algorithm}"));
            let fields: Vec<u64> = redis::from_redis_value(reply).expect("six integers");
            if fields[0] == 1 {
                times.push(now);
            }
        }
        std::thread::sleep(EVERY);
    }
    for (algorithm, times) in admitted {
        let file = format!("docs/pictures/{}.svg", algorithm.to_lowercase());
        std::fs::write(&file, picture(algorithm, &times)).expect("docs/pictures exists");
        println!("{file}: {} admitted at {times:?} ms", times.len());
    }
}

/// Draws a time line with a bar per admitted request. Requests at the same pixel are stacked.
fn picture(algorithm: &str, times: &[u64]) -> String {
    const WIDTH: u64 = 700;
    const BASE: u64 = 84;
    let x = |at: u64| 10 + at * (WIDTH - 20) / LENGTH_MS;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} 104\" font-family=\"sans-serif\" font-size=\"10\">\n\
         <title>{algorithm}: {} of all requests admitted in {LENGTH_MS} ms, limit {LIMIT} per {WINDOW_MS} ms</title>\n\
         <rect width=\"{WIDTH}\" height=\"104\" fill=\"#ffffff\"/>\n",
        times.len()
    );
    for second in 0..=LENGTH_MS / 1000 {
        let (x, at) = (x(second * 1000), second * 1000);
        let line = if at.is_multiple_of(WINDOW_MS) { "#9aa5b1" } else { "#e4e7eb" };
        let _ = writeln!(svg, "<line x1=\"{x}\" y1=\"8\" x2=\"{x}\" y2=\"{BASE}\" stroke=\"{line}\"/>");
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"98\" text-anchor=\"middle\" fill=\"#52606d\">{second} s</text>");
    }
    let begin = x(BEGIN_MS);
    let _ = writeln!(
        svg,
        "<line x1=\"{begin}\" y1=\"{BASE}\" x2=\"{}\" y2=\"{BASE}\" stroke=\"#cbd2d9\" stroke-width=\"3\"/>",
        x(LENGTH_MS)
    );
    let mut heights = std::collections::BTreeMap::new();
    for &at in times {
        // Bars are 4 pixels wide. Overlapping bars are stacked.
        let slot = x(at) / 5;
        let height: &mut u64 = heights.entry(slot).or_default();
        let (left, top) = (slot * 5, BASE - 6 - *height * 7);
        *height += 1;
        let _ = writeln!(svg, "<rect x=\"{left}\" y=\"{top}\" width=\"4\" height=\"6\" fill=\"#d64545\"/>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn time_ms(client: &mut Client) -> u64 {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(client.run("TIME")).expect("TIME");
    seconds * 1000 + micros / 1000
}
