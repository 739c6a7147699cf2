//! The operations of Scratch: from arguments to a call to a tree of its answer.

use serde_json::{Value as Json, json};
use statekeep::Scratch;

use crate::{
    Outcome,
    args::{Args, given},
    trees,
};

pub async fn call(scratch: &Scratch, operation: &str, mut args: Args) -> Outcome<Json> {
    let instance_id = args.text("instance_id")?.unwrap_or_default();
    match operation {
        "open" => {
            let mut call = scratch.open(instance_id);
            given!(call, args, idle_ttl: duration);
            args.done()?;
            Ok(trees::instance(&call.await?))
        }
        "put" => {
            let call = scratch.put(instance_id, args.needed("key")?, args.needed_value("value")?);
            args.done()?;
            Ok(json!({"key": call.await?}))
        }
        "get" => {
            let call = scratch.get(instance_id, args.needed("key")?);
            args.done()?;
            Ok(match call.await? {
                Some(item) => json!({"key": item.key, "value": trees::value(&item.value)}),
                None => json!({"value": null}),
            })
        }
        "list" => {
            args.done()?;
            Ok(json!({"keys": scratch.list(instance_id).await?}))
        }
        "clear" => {
            let mut call = scratch.clear(instance_id);
            given!(call, args, key: text);
            args.done()?;
            Ok(json!({"cleared": call.await?}))
        }
        "close" => {
            args.done()?;
            Ok(json!({"cleared": scratch.close(instance_id).await?}))
        }
        _ => Err(format!("there is no scratch.{operation}").into()),
    }
}
