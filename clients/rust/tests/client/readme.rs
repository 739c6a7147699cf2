//! What the README shows is what runs.

use std::{env, path::Path, process::Stdio};

use tokio::process::Command;

use crate::{server::Server, within};

const README: &str = include_str!("../../README.md");
const EXAMPLE: &str = include_str!("../../examples/remember.rs");

#[test]
fn the_readme_shows_the_example() {
    assert!(
        README.contains(&format!("```rust,no_run\n{EXAMPLE}```\n")),
        "README.md does not have examples/remember.rs"
    );
}

#[test]
fn the_readme_of_the_repository_shows_its_heart() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(path).expect("the repository has a README");
    let (_, from_client) = EXAMPLE.split_once("    let client").expect("the example has a client");
    let (memory, _) = from_client.split_once("\n\n    // StateStore").expect("after Memory comes StateStore");
    let heart = format!("let client{}\n", memory.replace("\n    ", "\n"));
    assert!(readme.contains(&format!("```rust\n{heart}```\n")), "README.md does not have:\n{heart}");
}

#[tokio::test]
async fn the_example_remembers_and_streams_back() {
    let server = Server::start().await;
    let this = env::current_exe().expect("a test has a path");
    let example = this.ancestors().nth(2).expect("a folder of builds").join("examples/remember");
    let run = Command::new(example).env("STATEKEEP_ADDRESS", &server.address).stderr(Stdio::inherit()).output();
    let output = within(run).await.expect("cargo test builds the examples");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("\"Ada\"\n1 message Some(Value {"), "{text}");
    assert!(text.contains(r#"{\"text\":\"hello\"}"#), "{text}");
}
