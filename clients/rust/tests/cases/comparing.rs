//! Compares an answer with the right one, which names only what matters.

use serde_json::Value as Json;

use crate::shown;

/// Where and how an answer is not the right one; `None` where it is.
pub fn difference(right: &Json, got: &Json, path: &str) -> Option<String> {
    match (right, got) {
        (Json::Object(members), _) if members.keys().any(|name| name.starts_with('$')) => special(members, got, path),
        (Json::Object(members), Json::Object(_)) => members.iter().find_map(|(name, member)| {
            let came = got.get(name).unwrap_or(&Json::Null);
            difference(member, came, &format!("{path}.{name}"))
        }),
        (Json::Array(items), Json::Array(came)) if items.len() == came.len() => items
            .iter()
            .zip(came)
            .enumerate()
            .find_map(|(place, (item, one))| difference(item, one, &format!("{path}.{place}"))),
        (Json::Number(_) | Json::String(_), Json::Number(_) | Json::String(_)) if digits(right) == digits(got) => None,
        (Json::Null, Json::Null) => None,
        (Json::Bool(a), Json::Bool(b)) if a == b => None,
        _ => told(path, right, got),
    }
}

fn special(members: &serde_json::Map<String, Json>, got: &Json, path: &str) -> Option<String> {
    if members.contains_key("$any") {
        return if got.is_null() { told(path, &"anything".into(), got) } else { None };
    }
    let Json::Array(came) = got else { return told(path, &members.clone().into(), got) };
    if let Some(count) = members.get("$count") {
        let differs = count.as_u64() != Some(came.len() as u64);
        return if differs { told(&format!("{path}, how many"), count, &came.len().into()) } else { None };
    }
    let Some(wanted) = members.get("$has").and_then(Json::as_array) else {
        return Some(format!("{path}: the case asks for what this runner does not know: {members:?}"));
    };
    let mut rest = came.iter();
    let missing = wanted.iter().find(|item| !rest.any(|one| difference(item, one, "").is_none()));
    missing.map(|item| format!("{path}: has no {}, or not in this order", shown(&item.to_string())))
}

fn digits(tree: &Json) -> String {
    tree.as_str().map_or_else(|| tree.to_string(), ToOwned::to_owned)
}

fn told(path: &str, right: &Json, got: &Json) -> Option<String> {
    let path = if path.is_empty() { "answer" } else { path.trim_start_matches('.') };
    Some(format!("{path}: right is {}, came {}", shown(&right.to_string()), shown(&got.to_string())))
}
