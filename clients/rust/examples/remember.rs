//! Remembers something, appends to a thread, and streams it back.

use serde_json::{Value as Json, json};
use statekeep::{Client, NewEvent, Value};

#[tokio::main]
async fn main() -> statekeep::Result<()> {
    let client = Client::from_env().await?; // STATEKEEP_ADDRESS, or 127.0.0.1:50051

    // Memory: every write makes a version, a delete hides the key, history shows all.
    let memory = client.memory();
    memory.set("app", "user/name", Value::json(&json!({"first": "Ada"}))?).await?;
    if let Some(value) = memory.get("app", "user/name").await?.and_then(|entry| entry.value) {
        println!("{}", value.parse::<Json>()?["first"]);
    }

    // StateStore: append to a thread, and stream it back.
    let event = NewEvent::new("message").data(Value::json(&json!({"text": "hello"}))?);
    client.state().append_next_event("chat-rust", event).await?;
    let mut history = client.state().stream_history("chat-rust");
    while let Some(event) = history.try_next().await? {
        println!("{} {} {:?}", event.sequence, event.event_type, event.data);
    }
    Ok(())
}
