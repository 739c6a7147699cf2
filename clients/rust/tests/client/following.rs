//! Followers go on where they were, whatever happens to the connection or the server.

use std::{env, time::Duration};

use statekeep::{Client, Code, Events, NewEvent, Reason, Value};
use tokio::time::sleep;

use crate::{
    fake::{Does, Fake},
    relay::Relay,
    server::{Server, has_sqlite},
    within,
};

async fn append(client: &Client, count: i64) {
    let events = (0..count).map(|_| NewEvent::new("step"));
    client.state().append_events("t", events).await.expect("they are stored");
}

async fn sequences(tail: &mut Events, count: usize) -> Vec<i64> {
    let mut sequences = Vec::new();
    while sequences.len() < count {
        let event = within(tail.try_next()).await.expect("it can be read").expect("it goes on");
        sequences.push(event.sequence);
    }
    sequences
}

#[tokio::test]
async fn a_follower_whose_connection_is_cut_loses_and_repeats_nothing() {
    let server = Server::start().await;
    let relay = Relay::start(&server.address).await;
    let writer = server.client().await;
    let client = Client::builder().address(&relay.address).token("").connect().await.expect("the relay passes on");
    let (mut tail, mut watch) = (client.state().tail("t"), client.memory().watch("app").after_revision(0));
    append(&writer, 3).await;
    let mut seen = sequences(&mut tail, 3).await;
    watch.opened().await.expect("it is answered");
    for _ in 0..5 {
        relay.cut();
        append(&writer, 200).await;
        writer.memory().set("app", "k", Value::text("x")).await.expect("it is written");
        seen.extend(sequences(&mut tail, 200).await);
    }
    assert_eq!(seen, (1..=1003).collect::<Vec<_>>());
    assert!(relay.connections() >= 5);
    let mut version = 0;
    while version < 5 {
        let entry = within(watch.try_next()).await.expect("it can be read").expect("it goes on");
        assert!(entry.version > version, "{} after {version}", entry.version);
        version = entry.version;
    }
}

#[tokio::test]
async fn a_history_whose_connection_is_cut_is_read_to_its_end_and_no_further() {
    let server = Server::start().await;
    let relay = Relay::start(&server.address).await;
    let writer = server.client().await;
    let text = "x".repeat(1000); // in all more than the client takes in before it is read
    for _ in 0..12 {
        let events = (0..1000).map(|_| NewEvent::new("step").data(Value::text(&text)));
        writer.state().append_events("t", events).await.expect("they are stored");
    }
    let client = Client::builder().address(&relay.address).token("").connect().await.expect("the relay passes on");
    let mut history = client.state().stream_history("t").last(11_000);
    let mut seen = sequences(&mut history, 1).await;
    relay.cut();
    append(&writer, 1).await;
    while let Some(event) = within(history.try_next()).await.expect("it can be read") {
        seen.push(event.sequence);
    }
    assert_eq!(seen, (1001..=12_000).collect::<Vec<_>>());
    assert!(relay.connections() > 1, "all of it came before the cut");
}

#[tokio::test]
async fn a_follower_goes_on_when_its_server_was_killed_and_started_again() {
    assert!(has_sqlite().await, "this server keeps nothing across a restart");
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("store.db").display());
    let mut server = Server::start_with("127.0.0.1:0", &["--store", &store]).await;
    let client = server.client().await;
    append(&client, 10).await;
    let mut tail = client.state().tail("t").retry_for(Duration::from_secs(60));
    let mut seen = sequences(&mut tail, 10).await;
    let cursor = tail.revision();

    server.kill().await;
    let server = Server::start_with(&server.address, &["--store", &store]).await;
    append(&server.client().await, 10).await;
    seen.extend(sequences(&mut tail, 10).await);
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
    assert_eq!(sequences(&mut client.state().tail("t").after_revision(cursor), 1).await, [11]);
}

#[tokio::test]
async fn a_follower_whose_thread_is_lost_is_told_so() {
    let mut server = Server::start().await;
    let client = server.client().await;
    append(&client, 1).await;
    let mut tail = client.state().tail("t");
    assert_eq!(sequences(&mut tail, 1).await, [1]);
    server.kill().await;
    let _server = Server::start_with(&server.address, &[]).await;
    let error = within(tail.try_next()).await.expect_err("a server that keeps nothing has no such cursor");
    assert_eq!((error.code(), error.reason()), (Code::OutOfRange, Some(&Reason::RevisionGone)));
}

#[tokio::test]
async fn a_follower_gives_up_when_its_patience_is_over() {
    let mut server = Server::start().await;
    let client = server.client().await;
    let mut tail = client.state().tail("t").retry_for(Duration::from_millis(300));
    tail.opened().await.expect("it is answered");
    server.kill().await;
    let error = within(tail.try_next()).await.expect_err("no server comes back");
    assert_eq!((error.code(), error.reason()), (Code::Unavailable, None));
    assert!(tail.try_next().await.expect("it has ended").is_none());
}

#[tokio::test]
async fn a_watch_that_was_opened_sees_whatever_is_written_from_then_on() {
    let server = Server::start().await;
    let client = server.client().await;
    client.memory().set("app", "before", Value::text("x")).await.expect("it is written");
    let mut watch = client.memory().watch("app");
    watch.opened().await.expect("it is answered");
    client.memory().set("app", "after", Value::text("y")).await.expect("it is written");
    let entry = within(watch.try_next()).await.expect("it can be read").expect("it goes on");
    assert_eq!((entry.key.as_str(), entry.value), ("after", Some(Value::text("y"))));
    assert!(watch.revision() >= entry.revision);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_noticed_by_its_missing_answers_to_pings() {
    let mut fake = Fake::start(Does::FallSilent).await;
    let ping = Duration::from_millis(200);
    let client = fake.client().keepalive(ping).keepalive_timeout(ping).connect().await.expect("it takes connections");
    let mut tail = client.state().tail("t");
    let error = within(tail.try_next()).await.expect_err("it never says anything");
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    for _ in 0..5 {
        fake.call().await;
    }
    assert!(fake.saw_no_more(), "a follower that was never answered tries five times");
}

/// 6 s is close to the fastest that the server takes. With STATEKEEP_SOAK=1 it is a minute of pings every 10 s.
#[tokio::test]
async fn an_idle_stream_with_pings_stays_open() {
    let soak = env::var("STATEKEEP_SOAK").is_ok_and(|value| value == "1");
    let (interval, idle) = if soak { (10, 65) } else { (6, 13) };
    let server = Server::start().await;
    let relay = Relay::start(&server.address).await;
    let builder = Client::builder().address(&relay.address).token("").keepalive(Duration::from_secs(interval));
    let client = builder.connect().await.expect("the relay passes on");
    let mut tail = client.state().tail("t").retry_for(Duration::ZERO);
    tail.opened().await.expect("it is answered");
    sleep(Duration::from_secs(1)).await; // until all is sent that belongs to opening
    let before = relay.sent();
    sleep(Duration::from_secs(idle)).await; // the passing of time is what this test is about
    let frames = (relay.sent() - before) / 17; // a ping has 17 bytes
    assert!((idle / interval - 1..=2 * (idle / interval) + 1).contains(&frames), "{frames} pings in {idle} s");
    append(&server.client().await, 1).await;
    assert_eq!(sequences(&mut tail, 1).await, [1]);
}
