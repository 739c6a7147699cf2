//! What this client writes for the others, and what it reads of theirs.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value as Json, json};
use statekeep::{Checkpoint, Client, NewCheckpoint, NewEvent, Value};

use crate::{
    Outcome, WITHIN,
    args::value_of,
    comparing::difference,
    connect,
    files::{Oddity, oddities},
    trees,
};

/// Writes every oddity to its four places, in the name of a language.
pub async fn write(folder: &Path, run: &str, language: &str) -> Outcome<Json> {
    let client = connect().await?;
    let (scope, thread) = names(run, language);
    let odd = oddities(folder)?;
    for (sequence, one) in (1..).zip(&odd) {
        let value = value_of(&one.value)?;
        client.memory().set(&scope, &one.name, value.clone()).await?;
        client.scratch().put(&thread, &one.name, value.clone()).await?;
        let event = NewEvent::new("oddity").with_id(&one.name).data(value.clone());
        client.state().append_next_event(&thread, event).await?;
        let checkpoint = NewCheckpoint::new(&one.name, sequence, value).with_id(&one.name);
        client.state().save_checkpoint(&thread, checkpoint).await?;
    }
    Ok(json!({"passed": odd.len(), "failed": 0, "skipped": []}))
}

/// Looks whether what each language wrote is there as it should be.
pub async fn read(folder: &Path, run: &str, languages: &str) -> Outcome<Json> {
    let client = connect().await?;
    let odd = oddities(folder)?;
    let (mut passed, mut failed, mut told) = (0, 0, BTreeMap::new());
    for language in languages.split(',') {
        let wrong = wrong(&client, run, language, &odd).await?;
        for problem in &wrong {
            eprintln!("FAILED crossing from {language}: {problem}");
        }
        passed += odd.len() - wrong.len();
        failed += wrong.len();
        told.insert(language, json!({"passed": odd.len() - wrong.len(), "failed": wrong.len()}));
    }
    Ok(json!({"passed": passed, "failed": failed, "skipped": [], "read": told}))
}

/// What is wrong with each oddity that is not as it was written.
async fn wrong(client: &Client, run: &str, language: &str, odd: &[Oddity]) -> Outcome<Vec<String>> {
    let (scope, thread) = names(run, language);
    let events = client.state().stream_history(&thread).timeout(WITHIN).collect_all().await?;
    let checkpoints = client.state().list_checkpoints(&thread).collect_all().await?;
    if !events.iter().map(|event| &event.id).eq(odd.iter().map(|one| &one.name)) || checkpoints.len() != odd.len() {
        return Ok(odd.iter().map(|one| format!("{}: the thread does not hold what was written", one.name)).collect());
    }
    let mut wrong = Vec::new();
    for (one, event) in odd.iter().zip(&events) {
        let entry = client.memory().get(&scope, &one.name).await?;
        let item = client.scratch().get(&thread, &one.name).await?;
        let places = [
            ("memory", entry.and_then(|entry| entry.value)),
            ("scratch", item.map(|item| item.value)),
            ("event", event.data.clone()),
            ("checkpoint", state_of(&checkpoints, &one.name)),
        ];
        wrong.extend(places.iter().find_map(|(place, value)| differs(one, place, value.as_ref())));
    }
    Ok(wrong)
}

fn state_of(checkpoints: &[Checkpoint], id: &str) -> Option<Value> {
    checkpoints.iter().find(|checkpoint| checkpoint.id == id).map(|checkpoint| checkpoint.state.clone())
}

fn differs(odd: &Oddity, place: &str, value: Option<&Value>) -> Option<String> {
    let mut right = odd.value.clone();
    if let Json::Object(members) = &mut right {
        members.entry("content_type").or_insert_with(|| "".into());
    }
    difference(&right, &trees::maybe(value, trees::value), &format!("{} in {place}", odd.name))
}

fn names(run: &str, language: &str) -> (String, String) {
    (format!("cross/{run}/{language}"), format!("cross-{run}-{language}"))
}
