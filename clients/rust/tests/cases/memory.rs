//! The operations of Memory: from arguments to a call to a tree of its answer.

use serde_json::{Value as Json, json};
use statekeep::{Memory, Watch, Write};

use crate::{
    Outcome,
    args::{Args, given},
    trees,
};

pub async fn call(memory: &Memory, operation: &str, args: Args) -> Outcome<Json> {
    match operation {
        "set" => set(memory, args).await,
        "batch_set" => batch_set(memory, args).await,
        "get" => get(memory, args).await,
        "batch_get" => batch_get(memory, args).await,
        "list" => list(memory, args).await,
        "history" => history(memory, args).await,
        "delete" => delete(memory, args).await,
        "purge" => purge(memory, args).await,
        "list_purges" => list_purges(memory, args).await,
        "list_scopes" => list_scopes(memory, args).await,
        _ => Err(format!("there is no memory.{operation}").into()),
    }
}

async fn set(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let mut call = memory.set(args.scope()?, args.needed("key")?, args.needed_value("value")?);
    given!(
        call, args, expected_version: number, ttl: duration, execution_id: text, flow_id: text, flow_name: text,
        request_id: text,
    );
    for (name, text) in args.labels()? {
        call = call.label(name, text);
    }
    args.done()?;
    Ok(json!({"entry": trees::entry(&call.await?)}))
}

async fn batch_set(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let (mut scopes, mut writes) = (Vec::new(), Vec::new());
    for tree in args.list("sets")? {
        let Json::Object(members) = tree else { return Err("a set is no object".into()) };
        let mut args = Args(members);
        scopes.push(args.scope()?);
        let mut write = Write::new(args.needed("key")?, args.needed_value("value")?);
        given!(
            write, args, expected_version: number, ttl: duration, execution_id: text, flow_id: text, flow_name: text,
        );
        for (name, text) in args.labels()? {
            write = write.label(name, text);
        }
        args.done()?;
        writes.push(write);
    }
    let scope = scopes.pop().unwrap_or_else(|| "none".into());
    if scopes.iter().any(|other| *other != scope) {
        return Err("a batch of several scopes: such a case needs batch_parts".into());
    }
    let mut call = memory.batch_set(scope, writes);
    given!(call, args, request_id: text);
    args.done()?;
    Ok(json!({"entries": trees::list(&call.await?, trees::entry)}))
}

async fn get(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let mut call = memory.get(args.scope()?, args.needed("key")?);
    given!(call, args, version: number, include_deleted: flag);
    args.done()?;
    Ok(json!({"entry": trees::maybe(call.await?.as_ref(), trees::entry)}))
}

async fn batch_get(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let call = memory.batch_get(args.scope()?, args.texts("keys")?);
    args.done()?;
    let found = call.await?;
    Ok(json!({"entries": trees::list(&found.entries, trees::entry), "missing_keys": found.missing_keys}))
}

async fn list(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let mut pages = memory.list(args.scope()?);
    given!(pages, args, prefix: text, page_size: small, include_values: flag, include_deleted: flag);
    args.done()?;
    Ok(json!({"entries": trees::list(&pages.collect_all().await?, trees::entry)}))
}

async fn history(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let mut versions = memory.history(args.scope()?, args.needed("key")?).timeout(crate::WITHIN);
    given!(versions, args, oldest_first: flag, include_values: flag, limit: number);
    args.done()?;
    Ok(json!({"entries": trees::list(&versions.collect_all().await?, trees::entry)}))
}

async fn delete(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let mut call = memory.delete(args.scope()?, args.needed("key")?);
    given!(
        call, args, expected_version: number, execution_id: text, flow_id: text, flow_name: text, request_id: text,
    );
    args.done()?;
    Ok(json!({"entry": trees::maybe(call.await?.as_ref(), trees::entry)}))
}

async fn purge(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let scope = args.scope()?;
    let mut call = match (args.text("key")?, args.flag("all_keys")?) {
        (Some(key), None | Some(false)) => memory.purge(scope, key),
        (None, Some(true)) => memory.purge_all(scope),
        _ => return Err("purges neither a key nor all, or both: such a case needs purge_selector".into()),
    };
    given!(call, args, keep: small, include_deleted: flag);
    args.done()?;
    let purged = call.await?;
    Ok(json!({"versions_deleted": purged.versions_deleted, "keys_affected": purged.keys_affected}))
}

async fn list_purges(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let mut pages = memory.list_purges(args.scope()?);
    given!(pages, args, page_size: small);
    args.done()?;
    Ok(json!({"purges": trees::list(&pages.collect_all().await?, trees::purge)}))
}

async fn list_scopes(memory: &Memory, mut args: Args) -> Outcome<Json> {
    let mut pages = memory.list_scopes();
    given!(pages, args, page_size: small);
    args.done()?;
    Ok(json!({"scopes": trees::list(&pages.collect_all().await?, trees::scope_info)}))
}

pub fn watch(memory: &Memory, mut args: Args) -> Outcome<Watch> {
    let mut watch = memory.watch(args.scope()?).include_values(args.flag("include_values")?.unwrap_or_default());
    given!(watch, args, prefix: text, after_revision: number, heartbeat: duration);
    args.done()?;
    Ok(watch)
}
