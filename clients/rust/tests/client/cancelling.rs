//! Deadlines and cancellation reach the server.

use std::time::{Duration, Instant};

use statekeep::{Code, Reason, Value};
use tokio::time::sleep;

use crate::{
    WITHIN,
    fake::{Does, Fake, Seen},
    server::Server,
    within,
};

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_fails_and_the_server_knew_the_time() {
    let mut fake = Fake::start(Does::Nothing).await;
    let client = fake.client().connect().await.expect("it takes connections");
    let begin = Instant::now();
    let error = client.memory().get("app", "k").timeout(Duration::from_millis(200)).await.expect_err("it is late");
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(begin.elapsed() >= Duration::from_millis(200));
    let told = fake.call().await.headers["grpc-timeout"].to_str().expect("text").to_owned();
    assert!(told.ends_with('u') || told.ends_with('n'), "{told}");
    assert!(matches!(fake.seen().await, Seen::Cancelled));
}

#[tokio::test]
async fn a_call_has_thirty_seconds_unless_it_is_told_otherwise() {
    let mut fake = Fake::start(Does::Nothing).await;
    let client = fake.client().connect().await.expect("it takes connections");
    let call = tokio::spawn(client.memory().get("app", "k").into_future());
    let told = fake.call().await.headers["grpc-timeout"].to_str().expect("text").to_owned();
    let micros: u64 = told.trim_end_matches('u').parse().expect("microseconds");
    assert!((29_000_000..=30_000_000).contains(&micros), "{told}");
    call.abort();
    assert!(matches!(fake.seen().await, Seen::Cancelled));

    let endless = tokio::spawn(client.memory().get("app", "k").timeout(None).into_future());
    assert!(!fake.call().await.headers.contains_key("grpc-timeout"));
    endless.abort();
}

#[tokio::test]
async fn a_dropped_call_and_a_dropped_stream_are_cancelled() {
    let mut fake = Fake::start(Does::Nothing).await;
    let client = fake.client().connect().await.expect("it takes connections");
    let call = tokio::spawn(client.memory().get("app", "k").into_future());
    fake.call().await;
    call.abort();
    assert!(matches!(fake.seen().await, Seen::Cancelled));

    let mut tail = client.state().tail("t");
    let reading = tokio::spawn(async move { tail.try_next().await.map(drop) });
    fake.call().await;
    reading.abort();
    assert!(matches!(fake.seen().await, Seen::Cancelled));
}

#[tokio::test]
async fn a_stream_with_a_timeout_ends_with_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut tail = client.state().tail("t").timeout(Duration::from_millis(300));
    let error = within(tail.try_next()).await.expect_err("nothing comes");
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(tail.try_next().await.expect("it has ended").is_none());
}

#[tokio::test]
async fn an_attached_instance_ends_when_it_is_dropped() {
    let server = Server::start().await;
    let scratch = server.client().await.scratch();
    let attached = scratch.attach("run").await.expect("it is free");
    scratch.put(attached.instance_id(), "k", Value::text("x")).await.expect("it is kept");
    let error = scratch.attach("run").await.expect_err("it is attached");
    assert_eq!(error.reason(), Some(&Reason::InstanceAttached));
    drop(attached);
    let give_up = Instant::now() + WITHIN;
    while !scratch.list("run").await.expect("it can be listed").is_empty() {
        assert!(Instant::now() < give_up, "the instance is still there");
        sleep(Duration::from_millis(10)).await;
    }
}
