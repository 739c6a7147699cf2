//! Values come back byte for byte.

use serde_json::value::RawValue;
use statekeep::{Code, Reason, Value};

use crate::server::Server;

#[tokio::test]
async fn json_comes_back_as_the_very_text_that_was_sent() {
    let server = Server::start().await;
    let memory = server.client().await.memory();
    for text in ["18446744073709551616", "1.0", "-0.0", "1e999", " {\"b\": 1, \"a\": 2, \"a\": 3} ", r#""\u0000""#] {
        memory.set("app", "k", Value::json_text(text)).await.expect("it is JSON");
        let entry = memory.get("app", "k").await.expect("it can be read").expect("it is there");
        assert_eq!(entry.value, Some(Value::json_text(text)));
    }
}

#[tokio::test]
async fn text_and_data_keep_their_bytes_and_their_media_type() {
    let server = Server::start().await;
    let scratch = server.client().await.scratch();
    let every_byte: Vec<u8> = (0..=255).collect();
    for value in [
        Value::text("a\0b\r\n👩‍👩‍👧‍👦"),
        Value::data(every_byte).with_content_type("image/png"),
        Value::data(Vec::new()),
        Value::text("# a").with_content_type("text/markdown"),
    ] {
        scratch.put("run", " key ", value.clone()).await.expect("it is kept");
        let item = scratch.get("run", "key").await.expect("it can be read").expect("it is there");
        assert_eq!((item.key.as_str(), item.value), ("key", value));
    }
}

#[test]
fn a_number_keeps_every_digit_in_the_types_that_have_room() {
    let large = Value::json(&9_007_199_254_740_993_u64).expect("a number has a JSON form");
    assert_eq!(large.as_json(), Some("9007199254740993"));
    assert_eq!(large.parse::<u64>().expect("it fits"), 9_007_199_254_740_993);

    let digits = "1234567890".repeat(40);
    let raw: Box<RawValue> = Value::json_text(&digits).parse().expect("it is JSON");
    assert_eq!(raw.get(), digits);
}

#[cfg(feature = "arbitrary_precision")]
#[test]
fn with_arbitrary_precision_a_tree_keeps_every_digit_too() {
    let text = "[18446744073709551617,0.1000000000000000055511151231257827]";
    let tree: serde_json::Value = Value::json_text(text).parse().expect("it is JSON");
    assert_eq!(Value::json(&tree).expect("a tree has a JSON form").as_json(), Some(text));
}

#[test]
fn what_is_read_as_another_type_is_an_error_that_says_so() {
    let error = Value::json_text("{}").parse::<u64>().expect_err("an object is no number");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("invalid type"), "{error}");

    let error = Value::text("1").parse::<u64>().expect_err("text is no JSON");
    assert_eq!(error.message(), "the value is no JSON: it is text or data");
}

#[tokio::test]
async fn what_is_no_json_is_refused_with_its_field() {
    let server = Server::start().await;
    let memory = server.client().await.memory();
    let error = memory.set("app", "k", Value::json_text("NaN")).await.expect_err("NaN is no JSON");
    assert_eq!(error.reason(), Some(&Reason::InvalidField));
    assert_eq!(error.fields()[0].field, "value.json");
    assert!(memory.get("app", "k").await.expect("it can be asked for").is_none());
}
