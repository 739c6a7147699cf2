//! A Statekeep server in a process of its own, started and ended as an operator would.

use std::{env, path::Path, process::Stdio};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Deserialize;
use statekeep::Client;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::within;

/// A running server, which ends with this object.
pub struct Server {
    process: Child,
    pub address: String,
}

#[derive(Deserialize)]
struct Ready {
    event: String,
    listen: Vec<String>,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with("127.0.0.1:0", &[]).await
    }

    pub async fn start_with(listen: &str, flags: &[&str]) -> Self {
        let mut process = command()
            .args(["serve", "--listen", listen])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("STATEKEEP_COMMAND, or ../../.venv/bin/statekeep, must be there: `make .venv/.dev` makes it");
        let mut lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
        let line = within(lines.next_line()).await.expect("stdout can be read").expect("the server did not come up");
        let ready: Ready = serde_json::from_str(&line).expect("the first line is JSON");
        assert_eq!(ready.event, "ready");
        Self { process, address: ready.listen[0].clone() }
    }

    pub async fn client(&self) -> Client {
        Client::builder().address(&self.address).token("").connect().await.expect("the server takes connections")
    }

    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    pub async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        within(self.process.wait()).await.expect("the server has ended");
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.id().expect("the server runs");
        kill(Pid::from_raw(id.try_into().expect("a process id")), signal).expect("the server takes signals");
    }
}

/// Whether the server keeps records in SQLite.
pub async fn has_sqlite() -> bool {
    let help = command().args(["serve", "--help"]).output().await.expect("the command runs");
    String::from_utf8_lossy(&help.stdout).contains("sqlite:")
}

fn command() -> Command {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/statekeep");
    let given = env::var("STATEKEEP_COMMAND").unwrap_or_else(|_| default.to_string_lossy().into_owned());
    let mut words = given.split_whitespace();
    let mut command = Command::new(words.next().expect("STATEKEEP_COMMAND is not empty"));
    command.args(words);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STATEKEEP_")) {
        command.env_remove(name);
    }
    command
}
