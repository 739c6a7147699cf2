//! Runs the cases, step by step.

use std::{
    collections::HashMap,
    path::Path,
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value as Json, json};
use statekeep::{Attachment, Client, Error, Events, Watch};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    Outcome, WITHIN,
    args::Args,
    comparing::difference,
    connect,
    files::{AtOnce, Case, Replacing, Step, cases, number},
    memory, scratch, shown, state, trees,
};

const PAUSE: Duration = Duration::from_millis(20);
const EVENTUALLY: Duration = Duration::from_secs(10);

/// What this client cannot even say, and why.
const UNMET: [(&str, &str); 3] = [
    ("no_value", "a Value always has a content"),
    ("batch_parts", "a batch takes one scope, and Write has no request id"),
    ("purge_selector", "purge takes a key, and purge_all takes all"),
];

/// Run every case whose id contains a text.
pub async fn run_all(folder: &Path, only: &str) -> Outcome<Json> {
    let client = connect().await?;
    let (mut passed, mut failed, mut skipped) = (0, 0, Vec::new());
    let run = format!("rust-{}-{}", process::id(), SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis());
    for (number, case) in cases(folder)?.into_iter().filter(|case| case.id.contains(only)).enumerate() {
        if let Some(why) = why_skipped(&case) {
            skipped.push(json!([case.id, why]));
            continue;
        }
        match run_case(&client, &case, format!("{run}-{number}")).await {
            Ok(()) => passed += 1,
            Err(problem) => {
                eprintln!("FAILED {}, {problem}", case.id);
                failed += 1;
            }
        }
    }
    Ok(json!({"passed": passed, "failed": failed, "skipped": skipped}))
}

fn why_skipped(case: &Case) -> Option<String> {
    let unmet = |need: &String| UNMET.iter().find(|(name, _)| name == need);
    case.needs.iter().find_map(unmet).map(|(name, why)| format!("{name}: {why}"))
}

async fn run_case(client: &Client, case: &Case, run: String) -> Outcome<()> {
    let replacing = Replacing { run, oddity: case.oddity.clone(), ..Default::default() };
    let mut running = Running { client, replacing, opened: HashMap::new() };
    for (number, step) in case.steps.iter().enumerate() {
        running.take(step).await.map_err(|problem| format!("step {}: {problem}", number + 1))?;
    }
    Ok(())
}

/// What stays open under a name until it is closed, or the case ends.
enum Opened {
    Watch(Box<Watch>),
    Tail(Box<Events>),
    Attached(#[expect(dead_code, reason = "dropping it ends the instance")] Attachment),
}

struct Running<'a> {
    client: &'a Client,
    replacing: Replacing,
    opened: HashMap<String, Opened>,
}

impl Running<'_> {
    async fn take(&mut self, step: &Step) -> Outcome<()> {
        if let Some(name) = &step.close {
            self.opened.remove(name).ok_or("nothing of that name is open")?;
            return Ok(());
        }
        if let Some(wanted) = &step.at_once {
            return self.at_once(step, wanted).await;
        }
        let give_up = Instant::now() + EVENTUALLY;
        loop {
            let outcome = timeout(WITHIN, self.attempt(step)).await.map_err(|_| "nothing came within 30 s")?;
            match self.judged(step, outcome) {
                Err(_) if step.eventually && Instant::now() < give_up => sleep(PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&mut self, step: &Step) -> Outcome<Json> {
        let args = Args(self.replacing.in_object(&step.args)?);
        if let Some(operation) = &step.call {
            return call(self.client, operation, args).await;
        }
        if let Some(operation) = &step.open {
            return self.open(operation, step.name.clone().ok_or("opens without a name")?, args).await;
        }
        self.read(step.read.as_ref().ok_or("the step is neither call, open, read nor close")?, step.count).await
    }

    async fn open(&mut self, operation: &str, name: String, args: Args) -> Outcome<Json> {
        let (opened, answer) = match operation {
            "memory.watch" => {
                let mut watch = memory::watch(&self.client.memory(), args)?;
                watch.opened().await?;
                (Opened::Watch(Box::new(watch)), json!({}))
            }
            "state.stream_history" => {
                let mut tail = state::tail(&self.client.state(), args)?;
                tail.opened().await?;
                (Opened::Tail(Box::new(tail)), json!({}))
            }
            "scratch.attach" => {
                let mut args = args;
                let attached = self.client.scratch().attach(args.needed("instance_id")?).await?;
                args.done()?;
                let answer = json!({"instance_id": attached.instance_id()});
                (Opened::Attached(attached), answer)
            }
            _ => return Err(format!("{operation} does not stay open").into()),
        };
        self.opened.insert(name, opened);
        Ok(answer)
    }

    async fn read(&mut self, name: &str, count: Option<usize>) -> Outcome<Json> {
        let mut records = Vec::new();
        let opened = self.opened.get_mut(name).ok_or_else(|| format!("{name} is not open"))?;
        while records.len() < count.unwrap_or(1) {
            records.push(match opened {
                Opened::Watch(watch) => trees::entry(&watch.try_next().await?.ok_or("the stream ended")?),
                Opened::Tail(tail) => trees::event(&tail.try_next().await?.ok_or("the stream ended")?),
                Opened::Attached(_) => return Err("there is nothing to read of an attached instance".into()),
            });
        }
        let field = if matches!(opened, Opened::Watch(_)) { "entries" } else { "events" };
        Ok(json!({field: records}))
    }

    /// Compares what came with what is right, and saves what is to be saved of it.
    fn judged(&mut self, step: &Step, outcome: Outcome<Json>) -> Outcome<()> {
        match (outcome, &step.error) {
            (Ok(answer), None) => {
                self.compared(step.answer.as_ref(), &answer, "")?;
                for (name, path) in &step.save {
                    self.replacing.saved.insert(name.clone(), at(&answer, path)?.clone());
                }
                Ok(())
            }
            (Ok(answer), Some(_)) => Err(format!("no error, but {}", shown(&answer.to_string())).into()),
            (Err(problem), right) => match (problem.downcast_ref::<Error>(), right) {
                (Some(error), Some(right)) => self.compared(Some(right), &trees::error(error, right), "error"),
                _ => Err(problem),
            },
        }
    }

    fn compared(&self, right: Option<&Json>, got: &Json, path: &str) -> Outcome<()> {
        let Some(right) = right else { return Ok(()) };
        let mut oddity = self.replacing.oddity.clone();
        if let Some(Json::Object(members)) = &mut oddity {
            members.entry("content_type").or_insert_with(|| "".into());
        }
        let replacing = Replacing { run: self.replacing.run.clone(), saved: self.replacing.saved.clone(), oddity };
        difference(&replacing.in_tree(right)?, got, path).map_or(Ok(()), |problem| Err(problem.into()))
    }

    async fn at_once(&self, step: &Step, wanted: &AtOnce) -> Outcome<()> {
        let operation = step.call.clone().ok_or("only calls are made at once")?;
        let args = self.replacing.in_object(&step.args)?;
        let mut callers = JoinSet::new();
        for _ in 0..wanted.callers {
            callers.spawn(caller(operation.clone(), args.clone(), wanted.clone()));
        }
        let mut numbers = Vec::new();
        while let Some(some) = callers.join_next().await {
            numbers.extend(some??);
        }
        numbers.sort_unstable();
        let right: Vec<i64> = (wanted.from..=wanted.to).collect();
        if numbers == right {
            Ok(())
        } else {
            Err(format!("the numbers are {}", shown(&format!("{numbers:?}"))).into())
        }
    }
}

async fn caller(operation: String, args: serde_json::Map<String, Json>, wanted: AtOnce) -> Outcome<Vec<i64>> {
    let client = connect().await?;
    let mut numbers = Vec::new();
    for _ in 0..wanted.calls {
        let answer = call(&client, &operation, Args(args.clone())).await?;
        numbers.push(number(at(&answer, &wanted.numbers)?)?);
    }
    Ok(numbers)
}

async fn call(client: &Client, operation: &str, args: Args) -> Outcome<Json> {
    match operation.split_once('.') {
        Some(("memory", method)) => memory::call(&client.memory(), method, args).await,
        Some(("scratch", method)) => scratch::call(&client.scratch(), method, args).await,
        Some(("state", method)) => state::call(&client.state(), method, args).await,
        _ => Err(format!("there is no {operation}").into()),
    }
}

fn at<'a>(tree: &'a Json, path: &str) -> Outcome<&'a Json> {
    let step = |tree: &'a Json, part: &str| match tree {
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => tree.get(part),
    };
    path.split('.').try_fold(tree, step).ok_or_else(|| format!("the answer has no {path}").into())
}
