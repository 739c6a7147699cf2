//! What Statekeep keeps, as the records that reads answer with.

use std::{collections::HashMap, time::SystemTime};

use crate::{
    Error, Result, Value,
    time::{optional_time, time},
    v1,
};

/// What kind of thing a scope belongs to. One name under two types is two scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScopeType {
    /// Shared by many runs.
    #[default]
    Namespace,
    /// Belongs to one flow.
    Flow,
    /// Belongs to one execution of a flow.
    Execution,
}

/// Where memory's keys live. A string is the namespace of that name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The scope's type.
    pub scope_type: ScopeType,
    /// The scope's name: trimmed by the server, then 1 to 256 of `A-Z a-z 0-9 . _ - /`.
    pub name: String,
}

impl Scope {
    /// A scope that many runs share.
    pub fn namespace(name: impl Into<String>) -> Self {
        Self { scope_type: ScopeType::Namespace, name: name.into() }
    }

    /// The scope of a flow.
    pub fn flow(name: impl Into<String>) -> Self {
        Self { scope_type: ScopeType::Flow, name: name.into() }
    }

    /// The scope of one execution of a flow.
    pub fn execution(name: impl Into<String>) -> Self {
        Self { scope_type: ScopeType::Execution, name: name.into() }
    }
}

impl From<&str> for Scope {
    fn from(name: &str) -> Self {
        Self::namespace(name)
    }
}

impl From<String> for Scope {
    fn from(name: String) -> Self {
        Self::namespace(name)
    }
}

impl From<&String> for Scope {
    fn from(name: &String) -> Self {
        Self::namespace(name)
    }
}

impl From<&Scope> for Scope {
    fn from(scope: &Scope) -> Self {
        scope.clone()
    }
}

impl From<Scope> for v1::Scope {
    fn from(scope: Scope) -> Self {
        let scope_type = match scope.scope_type {
            ScopeType::Namespace => v1::ScopeType::Namespace,
            ScopeType::Flow => v1::ScopeType::Flow,
            ScopeType::Execution => v1::ScopeType::Execution,
        };
        Self { r#type: scope_type.into(), name: scope.name }
    }
}

fn scope_of(scope: Option<v1::Scope>) -> Result<Scope> {
    let scope = scope.ok_or_else(|| Error::malformed("scope"))?;
    let scope_type = match scope.r#type() {
        v1::ScopeType::Unspecified | v1::ScopeType::Namespace => ScopeType::Namespace,
        v1::ScopeType::Flow => ScopeType::Flow,
        v1::ScopeType::Execution => ScopeType::Execution,
    };
    Ok(Scope { scope_type, name: scope.name })
}

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Where the key lives.
    pub scope: Scope,
    /// The key.
    pub key: String,
    /// Counts from 1 for each key, tombstones included, and is never used twice.
    pub version: i64,
    /// `None` on a tombstone, and where the answer carries no values.
    pub value: Option<Value>,
    /// What the value is: object, array, string, number, boolean, null, text, or its media type.
    pub value_type: String,
    /// Whether this is a tombstone.
    pub deleted: bool,
    /// When it was written.
    pub create_time: SystemTime,
    /// When it expires; `None`: never.
    pub expire_time: Option<SystemTime>,
    /// Names this version among all versions of all keys.
    pub entry_id: String,
    /// Who wrote it, where the writer said.
    pub execution_id: Option<String>,
    /// The flow that wrote it, where the writer said.
    pub flow_id: Option<String>,
    /// That flow's name, where the writer said.
    pub flow_name: Option<String>,
    /// What the writer kept with it.
    pub labels: HashMap<String, String>,
    /// Grows with every write of the scope, and never repeats: what a watch goes on after.
    pub revision: i64,
}

impl TryFrom<v1::MemoryEntry> for Entry {
    type Error = Error;

    fn try_from(entry: v1::MemoryEntry) -> Result<Self> {
        Ok(Self {
            scope: scope_of(entry.scope)?,
            key: entry.key,
            version: entry.version,
            value: entry.value.map(Value::try_from).transpose()?,
            value_type: entry.value_type,
            deleted: entry.deleted,
            create_time: time(entry.create_time)?,
            expire_time: optional_time(entry.expire_time)?,
            entry_id: entry.entry_id,
            execution_id: entry.execution_id,
            flow_id: entry.flow_id,
            flow_name: entry.flow_name,
            labels: entry.labels,
            revision: entry.revision,
        })
    }
}

/// Several keys of one scope, as they were at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entries {
    /// Those that have a value, in the order they were asked for.
    pub entries: Vec<Entry>,
    /// Those that have none.
    pub missing_keys: Vec<String>,
}

/// What one purge removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// How many versions.
    pub versions_deleted: i64,
    /// How many keys lost some.
    pub keys_affected: i64,
}

/// What a scope remembers of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeRecord {
    /// The scope.
    pub scope: Scope,
    /// When it was.
    pub create_time: SystemTime,
    /// The keys that lost versions, sorted; of very many, as many as one record holds.
    pub keys: Vec<String>,
    /// How many versions were removed.
    pub versions_deleted: i64,
    /// How many of the newest versions of each key were to stay.
    pub keep: i32,
    /// How many keys lost versions.
    pub keys_affected: i64,
}

impl TryFrom<v1::MemoryPurgeRecord> for PurgeRecord {
    type Error = Error;

    fn try_from(purge: v1::MemoryPurgeRecord) -> Result<Self> {
        Ok(Self {
            scope: scope_of(purge.scope)?,
            create_time: time(purge.create_time)?,
            keys: purge.keys,
            versions_deleted: purge.versions_deleted,
            keep: purge.keep,
            keys_affected: purge.keys_affected,
        })
    }
}

/// A scope that holds keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeInfo {
    /// The scope.
    pub scope: Scope,
    /// How many of its keys have a value.
    pub entry_count: i64,
}

impl TryFrom<v1::MemoryScopeInfo> for ScopeInfo {
    type Error = Error;

    fn try_from(info: v1::MemoryScopeInfo) -> Result<Self> {
        Ok(Self { scope: scope_of(info.scope)?, entry_count: info.entry_count })
    }
}

/// A scratch instance that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// The keys that were there before and are gone, sorted.
    pub cleared: Vec<String>,
    /// When it ends if it is not used; `None`: never.
    pub expire_time: Option<SystemTime>,
}

/// A value of a scratch instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScratchItem {
    /// The key as kept: trimmed.
    pub key: String,
    /// The value.
    pub value: Value,
}

/// Something that happened in a thread, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Unique on its branch.
    pub id: String,
    /// The thread.
    pub thread_id: String,
    /// The branch.
    pub branch_id: String,
    /// Its number on the branch. Events come in the order they were stored, which need not be that of their numbers.
    pub sequence: i64,
    /// What happened: `run_started`, `message`, `error`, …
    pub event_type: String,
    /// The node of a graph that it happened in.
    pub node: Option<String>,
    /// The event that it followed from.
    pub parent_id: Option<String>,
    /// Its details.
    pub data: Option<Value>,
    /// What kind of error it tells of.
    pub error_type: Option<String>,
    /// What it says in words.
    pub message: Option<String>,
    /// When it was: by the writer's clock where the writer said so, else by the server's. Never used for order.
    pub create_time: SystemTime,
    /// What the writer kept with it.
    pub labels: HashMap<String, String>,
    /// Grows with every write of the thread, and never repeats: what a cursor counts in.
    pub revision: i64,
}

impl TryFrom<v1::Event> for Event {
    type Error = Error;

    fn try_from(event: v1::Event) -> Result<Self> {
        Ok(Self {
            id: event.id,
            thread_id: event.thread_id,
            branch_id: event.branch_id,
            sequence: event.sequence,
            event_type: event.r#type,
            node: event.node,
            parent_id: event.parent_id,
            data: event.data.map(Value::try_from).transpose()?,
            error_type: event.error_type,
            message: event.message,
            create_time: time(event.create_time)?,
            labels: event.labels,
            revision: event.revision,
        })
    }
}

/// Where a batch of events was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The number of the first.
    pub first_sequence: i64,
    /// The number of the last.
    pub last_sequence: i64,
    /// The ids stored, in order.
    pub ids: Vec<String>,
    /// The revision of the last.
    pub revision: i64,
}

/// A whole snapshot of a thread's state, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Unique on its branch.
    pub id: String,
    /// The thread.
    pub thread_id: String,
    /// The branch.
    pub branch_id: String,
    /// The event it was taken at.
    pub event_id: String,
    /// That event's number.
    pub sequence: i64,
    /// The state.
    pub state: Value,
    /// The tasks still to run at that point: a JSON list.
    pub active: Option<Value>,
    /// `running`, `completed`, `forked`, …
    pub status: String,
    /// When it was taken.
    pub create_time: SystemTime,
    /// The checkpoint before it.
    pub parent_id: Option<String>,
    /// What else the writer kept with it.
    pub metadata: Option<Value>,
    /// What [`list_checkpoints`](crate::State::list_checkpoints) can choose by.
    pub labels: HashMap<String, String>,
    /// Grows with every write of the thread, and never repeats.
    pub revision: i64,
}

impl TryFrom<v1::Checkpoint> for Checkpoint {
    type Error = Error;

    fn try_from(checkpoint: v1::Checkpoint) -> Result<Self> {
        let state = checkpoint.state.ok_or_else(|| Error::malformed("state in a checkpoint"))?;
        Ok(Self {
            id: checkpoint.id,
            thread_id: checkpoint.thread_id,
            branch_id: checkpoint.branch_id,
            event_id: checkpoint.event_id,
            sequence: checkpoint.sequence,
            state: state.try_into()?,
            active: checkpoint.active.map(Value::try_from).transpose()?,
            status: checkpoint.status,
            create_time: time(checkpoint.create_time)?,
            parent_id: checkpoint.parent_id,
            metadata: checkpoint.metadata.map(Value::try_from).transpose()?,
            labels: checkpoint.labels,
            revision: checkpoint.revision,
        })
    }
}

/// What a branch holds: an event, or a checkpoint among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An event.
    Event(Event),
    /// A checkpoint.
    Checkpoint(Checkpoint),
}

/// A whole branch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// The thread.
    pub thread_id: String,
    /// The branch.
    pub branch_id: String,
    /// The events, in the order they were stored.
    pub events: Vec<Event>,
    /// The checkpoints, in the order they were saved.
    pub checkpoints: Vec<Checkpoint>,
}

impl TryFrom<v1::History> for History {
    type Error = Error;

    fn try_from(history: v1::History) -> Result<Self> {
        Ok(Self {
            thread_id: history.thread_id,
            branch_id: history.branch_id,
            events: all(history.events)?,
            checkpoints: all(history.checkpoints)?,
        })
    }
}

/// A branch of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Branch {
    /// Its id.
    pub id: String,
    /// The thread.
    pub thread_id: String,
    /// The branch it was forked from; empty on one that was not forked, such as `main`.
    pub parent_branch_id: String,
    /// The event it was forked at; empty on one that was not forked.
    pub from_event_id: String,
    /// When it was forked; `None` where it was not.
    pub create_time: Option<SystemTime>,
    /// The revision of the fork.
    pub revision: i64,
}

impl TryFrom<v1::Branch> for Branch {
    type Error = Error;

    fn try_from(branch: v1::Branch) -> Result<Self> {
        Ok(Self {
            id: branch.id,
            thread_id: branch.thread_id,
            parent_branch_id: branch.parent_branch_id,
            from_event_id: branch.from_event_id,
            create_time: optional_time(branch.create_time)?,
            revision: branch.revision,
        })
    }
}

/// A new branch, with what the fork stored on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forked {
    /// The branch.
    pub branch: Branch,
    /// Its first checkpoint, where the fork brought one.
    pub checkpoint: Option<Checkpoint>,
    /// Its first event, where the fork brought one.
    pub event: Option<Event>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// Its id.
    pub id: String,
    /// Tells it from one of the same id that was deleted before it.
    pub uid: String,
    /// How many events it has, on all branches.
    pub event_count: i64,
    /// How many checkpoints it has, on all branches.
    pub checkpoint_count: i64,
    /// How many branches were forked in it.
    pub branch_count: i64,
    /// When it began.
    pub create_time: SystemTime,
    /// When it was last written to.
    pub update_time: SystemTime,
    /// The revision of its last write.
    pub revision: i64,
}

impl TryFrom<v1::Thread> for Thread {
    type Error = Error;

    fn try_from(thread: v1::Thread) -> Result<Self> {
        Ok(Self {
            id: thread.id,
            uid: thread.uid,
            event_count: thread.event_count,
            checkpoint_count: thread.checkpoint_count,
            branch_count: thread.branch_count,
            create_time: time(thread.create_time)?,
            update_time: time(thread.update_time)?,
            revision: thread.revision,
        })
    }
}

/// What deleting a thread removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedThread {
    /// How many events.
    pub events_deleted: i64,
    /// How many checkpoints.
    pub checkpoints_deleted: i64,
}

/// Turns all of a list's messages into records.
pub(crate) fn all<M, R: TryFrom<M, Error = Error>>(messages: Vec<M>) -> Result<Vec<R>> {
    messages.into_iter().map(R::try_from).collect()
}
