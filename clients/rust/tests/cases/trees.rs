//! The client's records as trees that can be compared.

use std::time::SystemTime;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value as Json, json};
use statekeep::{
    Branch, Checkpoint, Content, Entry, Error, Event, Instance, PurgeRecord, Scope, ScopeInfo, ScopeType, Thread, Value,
};

pub fn value(value: &Value) -> Json {
    let content_type = &value.content_type;
    match &value.content {
        Content::Json(text) => json!({"json": text, "content_type": content_type}),
        Content::Text(text) => json!({"text": text, "content_type": content_type}),
        Content::Data(data) => json!({"data": BASE64_STANDARD.encode(data), "content_type": content_type}),
    }
}

/// A tree of what is there; null of what is not.
pub fn maybe<T>(what: Option<&T>, tree: fn(&T) -> Json) -> Json {
    what.map_or(Json::Null, tree)
}

pub fn list<T>(many: &[T], tree: fn(&T) -> Json) -> Json {
    many.iter().map(tree).collect()
}

fn time(time: &SystemTime) -> Json {
    let mut time = prost_types::Timestamp::from(*time);
    let micros = time.nanos / 1000;
    time.nanos = 0;
    format!("{}.{micros:06}Z", time.to_string().trim_end_matches('Z')).into()
}

fn scope(scope: &Scope) -> Json {
    let scope_type = match scope.scope_type {
        ScopeType::Namespace => "namespace",
        ScopeType::Flow => "flow",
        ScopeType::Execution => "execution",
        _ => "unknown",
    };
    json!({"type": scope_type, "name": scope.name})
}

pub fn entry(entry: &Entry) -> Json {
    json!({
        "scope": scope(&entry.scope), "key": entry.key, "version": entry.version,
        "value": maybe(entry.value.as_ref(), value), "value_type": entry.value_type, "deleted": entry.deleted,
        "create_time": time(&entry.create_time), "expire_time": maybe(entry.expire_time.as_ref(), time),
        "entry_id": entry.entry_id, "execution_id": entry.execution_id, "flow_id": entry.flow_id,
        "flow_name": entry.flow_name, "labels": entry.labels, "revision": entry.revision,
    })
}

pub fn purge(purge: &PurgeRecord) -> Json {
    json!({
        "scope": scope(&purge.scope), "create_time": time(&purge.create_time), "keys": purge.keys,
        "versions_deleted": purge.versions_deleted, "keep": purge.keep, "keys_affected": purge.keys_affected,
    })
}

pub fn scope_info(info: &ScopeInfo) -> Json {
    json!({"scope": scope(&info.scope), "entry_count": info.entry_count})
}

pub fn instance(instance: &Instance) -> Json {
    json!({
        "instance_id": instance.id, "cleared": instance.cleared,
        "expire_time": maybe(instance.expire_time.as_ref(), time),
    })
}

pub fn event(event: &Event) -> Json {
    json!({
        "id": event.id, "thread_id": event.thread_id, "branch_id": event.branch_id, "sequence": event.sequence,
        "type": event.event_type, "node": event.node, "parent_id": event.parent_id,
        "data": maybe(event.data.as_ref(), value), "error_type": event.error_type, "message": event.message,
        "create_time": time(&event.create_time), "labels": event.labels, "revision": event.revision,
    })
}

pub fn checkpoint(checkpoint: &Checkpoint) -> Json {
    json!({
        "id": checkpoint.id, "thread_id": checkpoint.thread_id, "branch_id": checkpoint.branch_id,
        "event_id": checkpoint.event_id, "sequence": checkpoint.sequence, "state": value(&checkpoint.state),
        "active": maybe(checkpoint.active.as_ref(), value), "status": checkpoint.status,
        "create_time": time(&checkpoint.create_time), "parent_id": checkpoint.parent_id,
        "metadata": maybe(checkpoint.metadata.as_ref(), value), "labels": checkpoint.labels,
        "revision": checkpoint.revision,
    })
}

pub fn branch(branch: &Branch) -> Json {
    json!({
        "id": branch.id, "thread_id": branch.thread_id, "parent_branch_id": branch.parent_branch_id,
        "from_event_id": branch.from_event_id, "create_time": maybe(branch.create_time.as_ref(), time),
        "revision": branch.revision,
    })
}

pub fn thread(thread: &Thread) -> Json {
    json!({
        "id": thread.id, "uid": thread.uid, "event_count": thread.event_count,
        "checkpoint_count": thread.checkpoint_count, "branch_count": thread.branch_count,
        "create_time": time(&thread.create_time), "update_time": time(&thread.update_time),
        "revision": thread.revision,
    })
}

/// An error; of several fields at fault, the one that the right error names.
pub fn error(error: &Error, right: &Json) -> Json {
    let wanted = right.get("field").and_then(Json::as_str).unwrap_or_default();
    let field = error.fields().iter().find(|one| one.field == wanted).or(error.fields().first());
    json!({
        "code": code_name(error), "reason": error.reason().map_or("", |reason| reason.as_str()),
        "metadata": error.metadata(), "field": field.map_or("", |one| &one.field), "message": error.message(),
    })
}

/// `FailedPrecondition` as gRPC writes it: `FAILED_PRECONDITION`.
fn code_name(error: &Error) -> String {
    let mut name = String::new();
    for letter in format!("{:?}", error.code()).chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}
