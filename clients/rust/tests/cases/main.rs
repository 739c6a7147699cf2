//! Runs the language-neutral cases of tests/clients/cases through this client. Their form stands in the README there.

mod args;
mod comparing;
mod crossing;
mod files;
mod memory;
mod running;
mod scratch;
mod state;
mod trees;

use std::{env, error::Error, path::Path, process::ExitCode, time::Duration};

use serde_json::{Value as Json, json};
use statekeep::Client;

/// How long a call, or a read, may take.
pub const WITHIN: Duration = Duration::from_secs(30);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(result) => {
            println!("{result}");
            let ran =
                result["passed"] != json!(0) || result["skipped"].as_array().is_some_and(|skipped| !skipped.is_empty());
            if result["failed"] == json!(0) && ran { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Outcome<Json> {
    let folder = setting("STATEKEEP_CASES")?;
    let folder = Path::new(&folder);
    let crossing = env::var("STATEKEEP_CROSS").unwrap_or_default();
    let mut result = match crossing.split_once(':') {
        None if crossing.is_empty() => {
            running::run_all(folder, &env::var("STATEKEEP_ONLY").unwrap_or_default()).await?
        }
        Some(("write", language)) => crossing::write(folder, &setting("STATEKEEP_RUN")?, language).await?,
        Some(("read", languages)) => crossing::read(folder, &setting("STATEKEEP_RUN")?, languages).await?,
        _ => return Err(format!("STATEKEEP_CROSS is write:LANGUAGE or read:LANGUAGE,…, not {crossing}").into()),
    };
    result["language"] = json!("rust");
    Ok(result)
}

fn setting(name: &str) -> Outcome<String> {
    env::var(name).map_err(|_| format!("{name} is not set: see tests/clients/cases/README.md").into())
}

/// A client of its own, at `STATEKEEP_ADDRESS`.
pub async fn connect() -> statekeep::Result<Client> {
    Client::builder().timeout(WITHIN).connect().await
}

/// The beginning of what is wrong: some values have megabytes.
pub fn shown(text: &str) -> String {
    let short: String = text.chars().take(400).collect();
    if short.len() == text.len() { short } else { format!("{short}… ({} bytes)", text.len()) }
}
