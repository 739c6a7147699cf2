//! The arguments of a step, as what the client's methods take. One that no method took is an error.

use std::time::{Duration, SystemTime};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value as Json};
use statekeep::{NewCheckpoint, NewEvent, Scope, Value};

use crate::{Outcome, files::number};

/// The arguments that are left.
pub struct Args(pub Map<String, Json>);

/// Sets on a call each of the arguments that is there: `given!(call, args, ttl: duration, …)`.
macro_rules! given {
    ($call:ident, $args:expr, $($name:ident: $kind:ident),* $(,)?) => {$(
        if let Some(argument) = $args.$kind(stringify!($name))? {
            $call = $call.$name(argument);
        }
    )*};
}
pub(crate) use given;

impl Args {
    pub fn text(&mut self, name: &str) -> Outcome<Option<String>> {
        let wrong = || format!("{name} is no text");
        self.0.remove(name).map(|tree| Ok(tree.as_str().ok_or_else(wrong)?.to_owned())).transpose()
    }

    pub fn number(&mut self, name: &str) -> Outcome<Option<i64>> {
        self.0.remove(name).map(|tree| number(&tree)).transpose()
    }

    pub fn small(&mut self, name: &str) -> Outcome<Option<i32>> {
        Ok(self.number(name)?.map(i32::try_from).transpose()?)
    }

    pub fn flag(&mut self, name: &str) -> Outcome<Option<bool>> {
        self.0.remove(name).map(|tree| Ok(tree.as_bool().ok_or("no flag")?)).transpose()
    }

    pub fn duration(&mut self, name: &str) -> Outcome<Option<Duration>> {
        let seconds = self.text(name)?.map(|text| text.trim_end_matches('s').parse()).transpose()?;
        Ok(seconds.map(Duration::try_from_secs_f64).transpose()?)
    }

    pub fn time(&mut self, name: &str) -> Outcome<Option<SystemTime>> {
        let time: Option<prost_types::Timestamp> = self.text(name)?.map(|text| text.parse()).transpose()?;
        Ok(time.map(SystemTime::try_from).transpose()?)
    }

    pub fn value(&mut self, name: &str) -> Outcome<Option<Value>> {
        self.0.remove(name).map(|tree| value_of(&tree)).transpose()
    }

    pub fn labels(&mut self) -> Outcome<Vec<(String, String)>> {
        let Some(tree) = self.0.remove("labels") else { return Ok(Vec::new()) };
        let members = tree.as_object().ok_or("labels are no object")?;
        let pair =
            |(name, text): (&String, &Json)| Ok((name.clone(), text.as_str().ok_or("a label is no text")?.to_owned()));
        members.iter().map(pair).collect()
    }

    pub fn scope(&mut self) -> Outcome<Scope> {
        let mut args = self.object("scope")?;
        let scope_type = args.text("type")?;
        let name = args.needed("name")?;
        args.done()?;
        match scope_type.as_deref() {
            None => Ok(name.into()),
            Some("namespace") => Ok(Scope::namespace(name)),
            Some("flow") => Ok(Scope::flow(name)),
            Some("execution") => Ok(Scope::execution(name)),
            Some(other) => Err(format!("{other} is no scope type").into()),
        }
    }

    pub fn needed(&mut self, name: &str) -> Outcome<String> {
        self.text(name)?.ok_or_else(|| format!("the case gives no {name}").into())
    }

    pub fn needed_value(&mut self, name: &str) -> Outcome<Value> {
        self.value(name)?.ok_or_else(|| format!("the case gives no {name}").into())
    }

    pub fn object(&mut self, name: &str) -> Outcome<Self> {
        match self.0.remove(name) {
            Some(Json::Object(members)) => Ok(Self(members)),
            _ => Err(format!("the case gives no {name}").into()),
        }
    }

    pub fn list(&mut self, name: &str) -> Outcome<Vec<Json>> {
        match self.0.remove(name) {
            Some(Json::Array(items)) => Ok(items),
            _ => Err(format!("the case gives no {name}").into()),
        }
    }

    pub fn texts(&mut self, name: &str) -> Outcome<Vec<String>> {
        let text = |item: &Json| Ok(item.as_str().ok_or("an item is no text")?.to_owned());
        self.list(name)?.iter().map(text).collect()
    }

    /// An event, of all that is left.
    pub fn event(mut self) -> Outcome<NewEvent> {
        let mut event = NewEvent::new(self.needed("type")?);
        if let Some(id) = self.text("id")? {
            event = event.with_id(id);
        }
        given!(event, self, data: value, node: text, parent_id: text, error_type: text, message: text, create_time: time);
        for (name, text) in self.labels()? {
            event = event.label(name, text);
        }
        self.done()?;
        Ok(event)
    }

    /// A checkpoint, of all that is left.
    pub fn checkpoint(mut self) -> Outcome<NewCheckpoint> {
        let event_id = self.text("event_id")?.unwrap_or_default();
        let sequence = self.number("sequence")?.unwrap_or_default();
        let mut checkpoint = NewCheckpoint::new(event_id, sequence, self.needed_value("state")?);
        if let Some(id) = self.text("id")? {
            checkpoint = checkpoint.with_id(id);
        }
        given!(checkpoint, self, active: value, status: text, parent_id: text, metadata: value, create_time: time);
        for (name, text) in self.labels()? {
            checkpoint = checkpoint.label(name, text);
        }
        self.done()?;
        Ok(checkpoint)
    }

    /// Refuses what no method took: an argument that is left out silently shows nothing.
    pub fn done(&self) -> Outcome<()> {
        match self.0.keys().next() {
            Some(name) => Err(format!("the client's method does not take {name}").into()),
            None => Ok(()),
        }
    }
}

/// The value that a case names.
pub fn value_of(tree: &Json) -> Outcome<Value> {
    let member = |name: &str| tree.get(name).and_then(Json::as_str);
    let value = if let Some(text) = member("json") {
        Value::json_text(text)
    } else if let Some(text) = member("text") {
        Value::text(text)
    } else {
        Value::data(BASE64_STANDARD.decode(member("data").ok_or("a value has neither json, text nor data")?)?)
    };
    Ok(value.with_content_type(member("content_type").unwrap_or_default()))
}
