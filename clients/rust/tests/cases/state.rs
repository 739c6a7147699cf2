//! The operations of StateStore: from arguments to a call to a tree of its answer.

use serde_json::{Value as Json, json};
use statekeep::{Events, Record, Records, State};

use crate::{
    Outcome, WITHIN,
    args::{Args, given},
    trees,
};

/// Sets the branch, where the case names one.
macro_rules! on_branch {
    ($call:ident, $args:expr) => {
        if let Some(branch) = $args.text("branch_id")? {
            $call = $call.branch(branch);
        }
    };
}

pub async fn call(state: &State, operation: &str, args: Args) -> Outcome<Json> {
    match operation {
        "append_event" => append_event(state, args).await,
        "append_next_event" => append_next_event(state, args).await,
        "append_events" => append_events(state, args).await,
        "save_checkpoint" => save_checkpoint(state, args).await,
        "latest_checkpoint" => latest_checkpoint(state, args).await,
        "list_checkpoints" => list_checkpoints(state, args).await,
        "get_history" => get_history(state, args).await,
        "stream_history" => stream_history(state, args).await,
        "fork" => fork(state, args).await,
        "list_branches" => list_branches(state, args).await,
        "list_threads" => list_threads(state, args).await,
        "delete_thread" => delete_thread(state, args).await,
        _ => Err(format!("there is no state.{operation}").into()),
    }
}

async fn append_event(state: &State, mut args: Args) -> Outcome<Json> {
    let mut event = args.object("event")?;
    args.done()?;
    let (thread, branch) = (event.needed("thread_id")?, event.text("branch_id")?);
    let sequence = event.number("sequence")?.unwrap_or_default();
    let mut call = state.append_event(thread, sequence, event.event()?);
    if let Some(branch) = branch {
        call = call.branch(branch);
    }
    Ok(json!({"event": trees::event(&call.await?)}))
}

async fn append_next_event(state: &State, mut args: Args) -> Outcome<Json> {
    let mut event = args.object("event")?;
    let (thread, branch) = (event.needed("thread_id")?, event.text("branch_id")?);
    let mut call = state.append_next_event(thread, event.event()?);
    if let Some(branch) = branch {
        call = call.branch(branch);
    }
    given!(call, args, expected_last_sequence: number);
    args.done()?;
    Ok(json!({"event": trees::event(&call.await?)}))
}

async fn append_events(state: &State, mut args: Args) -> Outcome<Json> {
    let mut events = Vec::new();
    for tree in args.list("events")? {
        let Json::Object(members) = tree else { return Err("an event is no object".into()) };
        events.push(Args(members).event()?);
    }
    let mut call = state.append_events(args.needed("thread_id")?, events);
    on_branch!(call, args);
    given!(call, args, expected_last_sequence: number);
    args.done()?;
    let stored = call.await?;
    Ok(json!({
        "first_sequence": stored.first_sequence, "last_sequence": stored.last_sequence, "ids": stored.ids,
        "revision": stored.revision,
    }))
}

async fn save_checkpoint(state: &State, mut args: Args) -> Outcome<Json> {
    let mut checkpoint = args.object("checkpoint")?;
    args.done()?;
    let (thread, branch) = (checkpoint.needed("thread_id")?, checkpoint.text("branch_id")?);
    let mut call = state.save_checkpoint(thread, checkpoint.checkpoint()?);
    if let Some(branch) = branch {
        call = call.branch(branch);
    }
    Ok(json!({"checkpoint": trees::checkpoint(&call.await?)}))
}

async fn latest_checkpoint(state: &State, mut args: Args) -> Outcome<Json> {
    let mut call = state.latest_checkpoint(args.needed("thread_id")?);
    on_branch!(call, args);
    if let Some(event) = args.text("at_event_id")? {
        call = call.at_event(event);
    }
    args.done()?;
    Ok(json!({"checkpoint": trees::maybe(call.await?.as_ref(), trees::checkpoint)}))
}

async fn list_checkpoints(state: &State, mut args: Args) -> Outcome<Json> {
    let mut pages = state.list_checkpoints(args.needed("thread_id")?);
    on_branch!(pages, args);
    given!(pages, args, page_size: small);
    for (name, text) in args.labels()? {
        pages = pages.label(name, text);
    }
    args.done()?;
    Ok(json!({"checkpoints": trees::list(&pages.collect_all().await?, trees::checkpoint)}))
}

async fn get_history(state: &State, mut args: Args) -> Outcome<Json> {
    let mut call = state.get_history(args.needed("thread_id")?);
    on_branch!(call, args);
    args.done()?;
    let history = call.await?;
    Ok(json!({"history": {
        "thread_id": history.thread_id, "branch_id": history.branch_id,
        "events": trees::list(&history.events, trees::event),
        "checkpoints": trees::list(&history.checkpoints, trees::checkpoint),
    }}))
}

async fn stream_history(state: &State, mut args: Args) -> Outcome<Json> {
    let events = state.stream_history(args.needed("thread_id")?).timeout(WITHIN);
    let with_checkpoints = args.flag("include_checkpoints")?.unwrap_or_default();
    let events = reading(events, args)?;
    let mut records =
        if with_checkpoints { Either::Records(events.with_checkpoints()) } else { Either::Events(events) };
    let (mut events, mut checkpoints) = (Vec::new(), Vec::new());
    while let Some(record) = records.next().await? {
        match record {
            Record::Event(event) => events.push(trees::event(&event)),
            Record::Checkpoint(checkpoint) => checkpoints.push(trees::checkpoint(&checkpoint)),
        }
    }
    let (caught_up, revision) = records.end();
    Ok(json!({"events": events, "checkpoints": checkpoints, "caught_up": caught_up, "revision": revision}))
}

/// A stream of events alone, or with checkpoints among them.
enum Either {
    Events(Events),
    Records(Records),
}

impl Either {
    async fn next(&mut self) -> statekeep::Result<Option<Record>> {
        match self {
            Self::Events(events) => Ok(events.try_next().await?.map(Record::Event)),
            Self::Records(records) => records.try_next().await,
        }
    }

    fn end(&self) -> (bool, i64) {
        match self {
            Self::Events(events) => (events.caught_up(), events.revision()),
            Self::Records(records) => (records.caught_up(), records.revision()),
        }
    }
}

async fn fork(state: &State, mut args: Args) -> Outcome<Json> {
    let mut call = state.fork(args.needed("thread_id")?, args.needed("from_event_id")?);
    on_branch!(call, args);
    given!(call, args, name: text, request_id: text);
    if args.0.contains_key("checkpoint") {
        call = call.checkpoint(args.object("checkpoint")?.checkpoint()?);
    }
    if args.0.contains_key("event") {
        call = call.event(args.object("event")?.event()?);
    }
    args.done()?;
    let forked = call.await?;
    Ok(json!({
        "branch": trees::branch(&forked.branch),
        "checkpoint": trees::maybe(forked.checkpoint.as_ref(), trees::checkpoint),
        "event": trees::maybe(forked.event.as_ref(), trees::event),
    }))
}

async fn list_branches(state: &State, mut args: Args) -> Outcome<Json> {
    let mut pages = state.list_branches(args.needed("thread_id")?);
    given!(pages, args, page_size: small, include_unforked: flag);
    args.done()?;
    Ok(json!({"branches": trees::list(&pages.collect_all().await?, trees::branch)}))
}

async fn list_threads(state: &State, mut args: Args) -> Outcome<Json> {
    let mut pages = state.list_threads();
    given!(pages, args, prefix: text, page_size: small);
    args.done()?;
    Ok(json!({"threads": trees::list(&pages.collect_all().await?, trees::thread)}))
}

async fn delete_thread(state: &State, mut args: Args) -> Outcome<Json> {
    let call = state.delete_thread(args.needed("thread_id")?);
    args.done()?;
    let deleted = call.await?;
    Ok(json!({"events_deleted": deleted.events_deleted, "checkpoints_deleted": deleted.checkpoints_deleted}))
}

pub fn tail(state: &State, mut args: Args) -> Outcome<Events> {
    if args.flag("follow")? != Some(true) {
        return Err("only a stream that follows stays open".into());
    }
    reading(state.tail(args.needed("thread_id")?), args)
}

fn reading(mut events: Events, mut args: Args) -> Outcome<Events> {
    on_branch!(events, args);
    given!(
        events, args, after_revision: number, limit: number, last: number, include_ancestors: flag, heartbeat: duration,
    );
    args.done()?;
    Ok(events)
}
