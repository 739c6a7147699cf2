//! Histories and lists, in one go, as streams and page by page.

use std::collections::HashSet;

use futures_util::{StreamExt, TryStreamExt};
use statekeep::{NewCheckpoint, NewEvent, Reason, Record, Scope, Value, Write};

use crate::server::Server;

#[tokio::test]
async fn a_history_too_large_for_one_message_is_streamed_whole_and_in_order() {
    let server = Server::start().await;
    let state = server.client().await.state();
    let text = "x".repeat(1000);
    for _ in 0..6 {
        let events = (0..1000).map(|_| NewEvent::new("message").data(Value::text(&text)));
        state.append_events("t", events).await.expect("they are stored");
    }
    let error = state.get_history("t").await.expect_err("it does not fit");
    assert_eq!(error.reason(), Some(&Reason::HistoryTooLarge));

    let mut history = state.stream_history("t");
    let mut sequences = Vec::new();
    while let Some(event) = history.next().await {
        sequences.push(event.expect("it can be read").sequence);
    }
    assert_eq!(sequences, (1..=6000).collect::<Vec<_>>());
    assert!(history.caught_up());

    let rest: Vec<_> = state.stream_history("t").after_revision(history.revision()).try_collect().await.expect("none");
    assert!(rest.is_empty());
    let last = state.stream_history("t").last(2).collect_all().await.expect("they can be read");
    assert_eq!(last.iter().map(|event| event.sequence).collect::<Vec<_>>(), [5999, 6000]);
}

#[tokio::test]
async fn a_fork_inherits_its_ancestors_and_checkpoints_stand_among_events() {
    let server = Server::start().await;
    let state = server.client().await.state();
    for id in ["a", "b", "c"] {
        state.append_next_event("t", NewEvent::new("step").with_id(id)).await.expect("it is stored");
    }
    let first = NewCheckpoint::new("b", 2, Value::json_text("{}")).with_id("first");
    let forked = state.fork("t", "b").name("draft").checkpoint(first).event(NewEvent::new("step").with_id("d")).await;
    let forked = forked.expect("the event is there");
    assert_eq!((forked.branch.id.as_str(), forked.branch.from_event_id.as_str()), ("draft", "b"));

    let line = state.stream_history("t").branch("draft").include_ancestors(true).collect_all().await;
    let ids: Vec<_> = line.expect("it can be read").into_iter().map(|event| event.id).collect();
    assert_eq!(ids, ["a", "b", "d"]);

    let records = state.stream_history("t").branch("draft").with_checkpoints().collect_all().await;
    let ids = records.expect("they can be read").into_iter().map(|record| match record {
        Record::Event(event) => event.id,
        Record::Checkpoint(checkpoint) => checkpoint.id,
    });
    assert_eq!(ids.collect::<HashSet<_>>(), HashSet::from(["first".to_owned(), "d".to_owned()]));
    let latest = state.latest_checkpoint("t").branch("draft").await.expect("it can be read").expect("it is there");
    assert_eq!((latest.id.as_str(), latest.state), ("first", Value::json_text("{}")));
}

#[tokio::test]
async fn a_list_is_walked_page_by_page_and_has_each_item_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let writes = (0..25).map(|number| Write::new(format!("k{number:02}"), Value::json_text(number.to_string())));
    client.memory().batch_set(Scope::flow("f"), writes).await.expect("they are written");
    let entries = client.memory().list(Scope::flow("f")).page_size(4).include_values(true).collect_all().await;
    let entries = entries.expect("they can be listed");
    assert_eq!(entries.len(), 25);
    assert!(entries.iter().enumerate().all(|(number, entry)| entry.key == format!("k{number:02}")));
    assert_eq!(entries[7].value, Some(Value::json_text("7")));
    assert!(client.memory().list("f").collect_all().await.expect("another scope").is_empty());

    client.memory().purge_all(Scope::flow("f")).await.expect("they are removed");
    let purges = client.memory().list_purges(Scope::flow("f")).collect_all().await.expect("they can be listed");
    assert_eq!((purges.len(), purges[0].keys_affected), (1, 25));
    assert!(client.memory().list_scopes().collect_all().await.expect("they can be listed").is_empty());
}

#[tokio::test]
async fn the_versions_of_a_key_come_newest_first_or_oldest_first() {
    let server = Server::start().await;
    let memory = server.client().await.memory();
    for text in ["1", "2", "3"] {
        memory.set("app", "k", Value::json_text(text)).await.expect("it is written");
    }
    memory.delete("app", "k").await.expect("it is deleted");
    let newest: Vec<_> = memory.history("app", "k").try_collect().await.expect("they can be read");
    assert_eq!(newest.iter().map(|entry| (entry.version, entry.deleted)).next(), Some((4, true)));
    assert_eq!(newest.len(), 4);
    let oldest = memory.history("app", "k").oldest_first(true).include_values(true).limit(2).collect_all().await;
    let values: Vec<_> = oldest.expect("they can be read").into_iter().filter_map(|entry| entry.value).collect();
    assert_eq!(values, [Value::json_text("1"), Value::json_text("2")]);
}
