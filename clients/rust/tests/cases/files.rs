//! The files of cases: what is in them, and what is replaced before a step is run.

use std::{collections::HashMap, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::Outcome;

const ODDITIES: &str = "oddities.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(rename = "about")]
    _about: String,
    cases: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(rename = "rule")]
    _rule: String,
    #[serde(default)]
    needs: Vec<String>,
    each: Option<String>,
    steps: Vec<Step>,
}

/// One step, as it is written. An unknown member is an error: what no runner looks at shows nothing.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub call: Option<String>,
    pub open: Option<String>,
    pub read: Option<String>,
    pub close: Option<String>,
    #[serde(default)]
    pub args: Map<String, Json>,
    #[serde(rename = "as")]
    pub name: Option<String>,
    pub count: Option<usize>,
    pub answer: Option<Json>,
    pub error: Option<Json>,
    #[serde(default)]
    pub save: HashMap<String, String>,
    #[serde(default)]
    pub eventually: bool,
    pub at_once: Option<AtOnce>,
}

/// The same call, made by several callers.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtOnce {
    pub callers: usize,
    pub calls: usize,
    pub numbers: String,
    pub from: i64,
    pub to: i64,
}

/// A value that is easily damaged on its way.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oddity {
    pub name: String,
    pub value: Json,
}

/// One case; `oddity` is the value it is about, where it is run once for each.
#[derive(Clone)]
pub struct Case {
    pub id: String,
    pub needs: Vec<String>,
    pub steps: Vec<Step>,
    pub oddity: Option<Json>,
}

/// Every case of a folder.
pub fn cases(folder: &Path) -> Outcome<Vec<Case>> {
    let odd = oddities(folder)?;
    let mut found = Vec::new();
    for name in names(folder)? {
        let file: File = parsed(folder, &name)?;
        for case in file.cases {
            found.extend(run_for(&format!("{}/{}", file.name, case.name), case, &odd));
        }
    }
    if found.is_empty() {
        return Err(format!("there are no cases in {}", folder.display()).into());
    }
    Ok(found)
}

fn run_for(id: &str, case: Written, odd: &[Oddity]) -> Vec<Case> {
    let one = Case { id: id.to_owned(), needs: case.needs, steps: case.steps, oddity: None };
    if case.each.is_none() {
        return vec![one];
    }
    let with = |odd: &Oddity| Case { id: format!("{id}/{}", odd.name), oddity: Some(odd.value.clone()), ..one.clone() };
    odd.iter().map(with).collect()
}

fn names(folder: &Path) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(folder)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") && name != ODDITIES {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The values that are easily damaged on their way, in the order of their file.
pub fn oddities(folder: &Path) -> Outcome<Vec<Oddity>> {
    let mut odd: Vec<Oddity> = parsed(folder, ODDITIES)?;
    for one in &mut odd {
        one.value = Replacing::default().in_tree(&one.value)?;
    }
    Ok(odd)
}

fn parsed<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Outcome<T> {
    let text = fs::read_to_string(folder.join(name))?;
    serde_json::from_str(&text).map_err(|error| format!("{name} is not as it must be: {error}").into())
}

/// What `$run`, `$saved` and `$oddity` stand for.
#[derive(Default)]
pub struct Replacing {
    pub run: String,
    pub saved: HashMap<String, Json>,
    pub oddity: Option<Json>,
}

impl Replacing {
    /// The tree in which all of it is replaced.
    pub fn in_tree(&self, tree: &Json) -> Outcome<Json> {
        match tree {
            Json::String(text) => Ok(text.replace("$run", &self.run).into()),
            Json::Array(items) => items.iter().map(|item| self.in_tree(item)).collect(),
            Json::Object(members) => match self.in_place_of(members)? {
                Some(replaced) => Ok(replaced),
                None => Ok(self.in_object(members)?.into()),
            },
            other => Ok(other.clone()),
        }
    }

    pub fn in_object(&self, members: &Map<String, Json>) -> Outcome<Map<String, Json>> {
        members.iter().map(|(name, member)| Ok((name.clone(), self.in_tree(member)?))).collect()
    }

    fn in_place_of(&self, members: &Map<String, Json>) -> Outcome<Option<Json>> {
        if let (Some(text), Some(times)) = (members.get("$repeat"), members.get("times")) {
            let times = times.as_u64().ok_or("times is no number")?;
            return Ok(Some(text.as_str().ok_or("$repeat is no text")?.repeat(usize::try_from(times)?).into()));
        }
        if let Some(name) = members.get("$saved") {
            let name = name.as_str().ok_or("$saved is no name")?;
            let saved = self.saved.get(name).ok_or_else(|| format!("nothing is saved as {name}"))?;
            return Ok(Some(match members.get("plus") {
                Some(plus) => (number(saved)? + number(plus)?).into(),
                None => saved.clone(),
            }));
        }
        if members.contains_key("$oddity") {
            return Ok(Some(self.oddity.clone().ok_or("the case has no oddity")?));
        }
        Ok(None)
    }
}

/// A whole number, which may stand as a string of its digits.
pub fn number(tree: &Json) -> Outcome<i64> {
    let text = match tree {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.parse().map_err(|_| format!("{text} is no whole number").into())
}
