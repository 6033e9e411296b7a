//! The command line.

use crate::{Failure, metrics, server::Server, top, web};
use clap::{Args, Parser, Subcommand};
use redis::{ClientTlsConfig, TlsCertificates};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Parser)]
#[command(name = "zeitset", version, about = "Shows what a Redis or Valkey server with the Zeitset module is doing")]
struct Cli {
    #[command(subcommand)]
    view: View,
}

#[derive(Subcommand)]
enum View {
    /// A web page: queues and their jobs, limits, sets, boards, and charts of the last hour
    Ui(Ui),
    /// Metrics for Prometheus, at /metrics
    Metrics(Metrics),
    /// A live view in the terminal
    Top(Top),
}

#[derive(Args)]
struct Target {
    // The brackets mark optional parts and are not links.
    #[allow(rustdoc::broken_intra_doc_links)]
    /// The server: redis://[user:password@]host[:port][/db], rediss://… for TLS, or redis+unix:///path/to/socket
    #[arg(
        long,
        env = "ZEITSET_REDIS",
        default_value = "redis://127.0.0.1:6379",
        hide_env_values = true,
        value_name = "URL"
    )]
    redis: String,
    /// The CA certificates (PEM) for a rediss:// server, instead of the system's
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// The client certificate (PEM) for a rediss:// server
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key (PEM) of the client certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl Target {
    fn open(&self) -> Result<Server, Failure> {
        Server::open(&self.redis, self.certificates()?)
    }

    fn certificates(&self) -> Result<Option<TlsCertificates>, Failure> {
        let pem = |file: &Option<PathBuf>| -> Result<Option<Vec<u8>>, Failure> {
            let Some(file) = file else { return Ok(None) };
            let read = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
            let is_pem = |text: &Vec<u8>| text.windows(10).any(|ten| ten == b"-----BEGIN");
            // If the file had no certificate, the program would trust no server.
            Ok(Some(read.and_then(|text| {
                if is_pem(&text) { Ok(text) } else { Err(format!("{} is no PEM file", file.display())) }
            })?))
        };
        let root_cert = pem(&self.cacert)?;
        let pair = pem(&self.cert)?.zip(pem(&self.key)?);
        let client_tls = pair.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        Ok((root_cert.is_some() || client_tls.is_some()).then_some(TlsCertificates { client_tls, root_cert }))
    }
}

#[derive(Args)]
struct Ui {
    #[command(flatten)]
    target: Target,
    /// The address to listen on. An address other than a loopback address requires a password (--password-file, or
    /// ZEITSET_PASSWORD)
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Show buttons that change queues. Without it, the page only reads
    #[arg(long)]
    write: bool,
    /// A file whose first line is the password. Any user name is accepted
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Another host name under which browsers reach the page, such as the name of a proxy. Requires a password. May be
    /// repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Time between two samples of the server. The charts show the last 720 samples
    #[arg(long, default_value = "5s", value_parser = interval)]
    interval: Duration,
    /// The number of queues that /metrics shows individually
    #[arg(long, default_value_t = metrics::QUEUES)]
    queues: usize,
}

#[derive(Args)]
struct Metrics {
    #[command(flatten)]
    target: Target,
    #[arg(long, default_value = "127.0.0.1:9469")]
    listen: SocketAddr,
    /// The number of queues that are shown individually, by name
    #[arg(long, default_value_t = metrics::QUEUES)]
    queues: usize,
    /// Print the metrics and exit, for the text file collector of the node exporter
    #[arg(long)]
    once: bool,
}

#[derive(Args)]
struct Top {
    /// The server's URL, instead of --redis
    #[arg(value_name = "URL", conflicts_with = "redis")]
    url: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Time between two samples
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one snapshot and exit. Without this option, output that is no terminal gets one snapshot per interval
    #[arg(long)]
    once: bool,
}

/// Parses `5s`, `500ms`, `1m`, or a number of seconds.
fn interval(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => return Err("a number with ms, s or m is expected".into()),
    };
    let seconds = number.parse::<f64>().map_err(|_| "a number is expected")? * scale;
    if (0.05..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("50ms to 60m are possible".into())
    }
}

pub fn run() -> Result<(), Failure> {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(async {
        match cli.view {
            View::Ui(ui) => web::serve(ui.target.open()?, settings(ui)?).await,
            View::Metrics(it) if it.once => metrics::print(&it.target.open()?, it.queues).await,
            View::Metrics(it) => metrics::serve(it.target.open()?, it.listen, it.queues).await,
            View::Top(it) => {
                let redis = it.url.unwrap_or_else(|| it.target.redis.clone());
                let target = Target { redis, ..it.target };
                top::run(target.open()?, it.interval, it.once).await
            }
        }
    });
    // Ends the requests that are still running.
    runtime.shutdown_background();
    outcome
}

fn settings(ui: Ui) -> Result<web::Settings, Failure> {
    let password = match &ui.password_file {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        None => std::env::var("ZEITSET_PASSWORD").ok(),
    };
    if password.as_ref().is_some_and(|password| password.len() < 8) {
        return Err("the password is too short: 8 characters at least".into());
    }
    if password.is_none() && (!ui.listen.ip().is_loopback() || !ui.hosts.is_empty()) {
        return Err("other machines are to be served: that needs --password-file or ZEITSET_PASSWORD".into());
    }
    Ok(web::Settings {
        listen: ui.listen,
        write: ui.write,
        password,
        hosts: ui.hosts,
        interval: ui.interval,
        queues: ui.queues,
    })
}
