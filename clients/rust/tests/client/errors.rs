//! Errors carry the server's reason and its parts.

use std::time::Duration;

use statekeep::{Code, NewCheckpoint, NewEvent, Reason, Value};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

use crate::{
    fake::{Does, Fake},
    server::Server,
    within,
};

fn failing(code: Code, reason: &str, retry_delay: Option<Duration>) -> Does {
    let mut details = ErrorDetails::with_error_info(reason, "statekeep", [("a".to_owned(), "b".to_owned())]);
    details.set_retry_info(retry_delay);
    Does::Fail(Status::with_error_details(code, "it does not go", details))
}

#[tokio::test]
async fn a_version_that_is_not_the_expected_one_is_named() {
    let server = Server::start().await;
    let memory = server.client().await.memory();
    memory.set("app", "k", Value::text("first")).await.expect("it is written");
    let again = memory.set("app", "k", Value::text("second")).expected_version(0).await;
    let error = again.expect_err("the key has a value");
    assert_eq!((error.code(), error.reason()), (Code::Aborted, Some(&Reason::VersionMismatch)));
    assert_eq!((error.metadata()["expected"].as_str(), error.metadata()["actual"].as_str()), ("0", "1"));
    assert!(error.to_string().starts_with("VERSION_MISMATCH: "), "{error}");
}

#[tokio::test]
async fn a_value_over_the_limit_is_refused_with_its_size_and_the_limit() {
    let server = Server::start().await;
    let memory = server.client().await.memory();
    let error = memory.set("app", "k", Value::text("x".repeat(5 << 20))).await.expect_err("it is too large");
    assert_eq!(error.reason(), Some(&Reason::ValueTooLarge));
    let number = |name: &str| error.metadata()[name].parse::<u64>().expect("a number");
    assert!(number("size") > number("max"));
}

#[tokio::test]
async fn a_write_that_is_sent_again_under_its_id_changes_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    let event = NewEvent::new("message").data(Value::text("hello"));
    let first = client.state().append_next_event("t", event.clone()).await.expect("it is stored");
    let second = client.state().append_next_event("t", event.clone()).await.expect("it is known");
    assert_eq!(first, second);

    let other = NewEvent::new("message").with_id(event.id()).data(Value::text("other"));
    let error = client.state().append_next_event("t", other).await.expect_err("the id is taken");
    assert_eq!((error.code(), error.reason()), (Code::AlreadyExists, Some(&Reason::EventExists)));

    let set = || client.memory().set("app", "k", Value::text("x")).request_id("once");
    assert_eq!(set().await.expect("it is written").version, 1);
    assert_eq!(set().await.expect("it is known").version, 1);
}

#[test]
fn an_empty_id_is_made_up_again_so_that_a_retry_is_known() {
    assert!(!NewEvent::new("x").with_id("").id().is_empty());
    assert!(!NewCheckpoint::new("e", 1, Value::text("x")).with_id("").id().is_empty());
    assert_eq!(NewEvent::new("x").with_id("mine").id(), "mine");
}

#[tokio::test]
async fn reasons_that_take_a_server_with_tokens_are_known() {
    for (code, name, reason) in [
        (Code::Unauthenticated, "UNAUTHENTICATED", Reason::Unauthenticated),
        (Code::PermissionDenied, "PERMISSION_DENIED", Reason::PermissionDenied),
        (Code::Aborted, "SOME_LATER_REASON", Reason::Other("SOME_LATER_REASON".into())),
    ] {
        let mut fake = Fake::start(failing(code, name, None)).await;
        let client = fake.client().connect().await.expect("it takes connections");
        let error = client.memory().get("app", "k").await.expect_err("it fails");
        assert_eq!((error.code(), error.reason()), (code, Some(&reason)));
        assert_eq!((error.message(), error.metadata()["a"].as_str()), ("it does not go", "b"));
        fake.call().await;
        assert!(fake.saw_no_more(), "only UNAVAILABLE is tried again");
    }
}

#[tokio::test]
async fn unavailable_is_tried_again_after_the_delay_that_the_server_suggests() {
    let delay = Duration::from_millis(20);
    let mut fake = Fake::start(failing(Code::Unavailable, "STORE_UNAVAILABLE", Some(delay))).await;
    let client = fake.client().connect().await.expect("it takes connections");
    let begin = std::time::Instant::now();
    let error = client.memory().set("app", "k", Value::text("x")).await.expect_err("it fails");
    assert_eq!((error.reason(), error.retry_delay()), (Some(&Reason::StoreUnavailable), Some(delay)));
    assert!(begin.elapsed() >= 3 * delay);
    for _ in 0..4 {
        assert_eq!(fake.call().await.uri.path(), "/statekeep.v1.Memory/Set");
    }
    assert!(fake.saw_no_more());
}

#[tokio::test]
async fn a_call_whose_answer_says_what_it_removed_is_sent_once() {
    let mut fake = Fake::start(failing(Code::Unavailable, "STORE_UNAVAILABLE", None)).await;
    let client = fake.client().connect().await.expect("it takes connections");
    client.memory().purge("app", "k").await.expect_err("it fails");
    client.state().delete_thread("t").await.expect_err("it fails");
    client.scratch().close("run").await.expect_err("it fails");
    for path in ["Memory/Purge", "StateStore/DeleteThread", "Scratch/Close"] {
        assert_eq!(fake.call().await.uri.path(), format!("/statekeep.v1.{path}"));
    }
    assert!(fake.saw_no_more());
}

#[tokio::test]
async fn a_follower_of_a_server_that_shuts_down_is_told_so() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut tail = client.state().tail("t").retry_for(Duration::ZERO);
    let mut watch = client.memory().watch("app").retry_for(Duration::ZERO);
    tail.opened().await.expect("it is answered");
    watch.opened().await.expect("it is answered");
    server.terminate();
    for error in [within(tail.try_next()).await.err(), within(watch.try_next()).await.err()] {
        let error = error.expect("the stream ends with an error");
        assert_eq!((error.code(), error.reason()), (Code::Unavailable, Some(&Reason::ShuttingDown)));
        assert!(error.retry_delay().is_some());
    }
}
