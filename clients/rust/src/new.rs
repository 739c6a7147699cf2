//! What is to be stored, with what may stand with it.

use std::time::{Duration, SystemTime};

use crate::{Value, time::duration, v1};

/// An id that nobody else makes up.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// An id that was given, or a new one in place of an empty one: without any, a retry would write twice.
pub(crate) fn or_new(id: impl Into<String>) -> String {
    let id = id.into();
    if id.is_empty() { new_id() } else { id }
}

/// One key to write, for [`Memory::batch_set`](crate::Memory::batch_set).
#[derive(Clone, Debug)]
pub struct Write(pub(crate) v1::MemorySetRequest);

impl Write {
    /// A value for a key.
    pub fn new(key: impl Into<String>, value: Value) -> Self {
        Self(v1::MemorySetRequest { key: key.into(), value: Some(value.into()), ..Default::default() })
    }

    /// The key's current version, 0 where it must have no value. Left out: any.
    pub fn expected_version(mut self, version: i64) -> Self {
        self.0.expected_version = Some(version);
        self
    }

    /// How long until the version expires. Left out: it never does.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.0.ttl = Some(duration(ttl));
        self
    }

    /// A label to keep with the version.
    pub fn label(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.0.labels.insert(name.into(), text.into());
        self
    }

    /// Who writes.
    pub fn execution_id(mut self, id: impl Into<String>) -> Self {
        self.0.execution_id = Some(id.into());
        self
    }

    /// The flow that writes.
    pub fn flow_id(mut self, id: impl Into<String>) -> Self {
        self.0.flow_id = Some(id.into());
        self
    }

    /// That flow's name.
    pub fn flow_name(mut self, name: impl Into<String>) -> Self {
        self.0.flow_name = Some(name.into());
        self
    }
}

/// An event to append. Its id is made here, so that sending it again changes nothing.
#[derive(Clone, Debug)]
pub struct NewEvent(pub(crate) v1::Event);

impl NewEvent {
    /// An event of a type, such as `run_started` or `message`.
    pub fn new(event_type: impl Into<String>) -> Self {
        Self(v1::Event { id: new_id(), r#type: event_type.into(), ..Default::default() })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// An id of one's own: of 1 to 256 bytes, unique on its branch. Empty: one is made up again.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.0.id = or_new(id);
        self
    }

    /// Its details.
    pub fn data(mut self, data: Value) -> Self {
        self.0.data = Some(data.into());
        self
    }

    /// The node of a graph that it happened in.
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.0.node = Some(node.into());
        self
    }

    /// The event that it followed from.
    pub fn parent_id(mut self, id: impl Into<String>) -> Self {
        self.0.parent_id = Some(id.into());
        self
    }

    /// What kind of error it tells of.
    pub fn error_type(mut self, error_type: impl Into<String>) -> Self {
        self.0.error_type = Some(error_type.into());
        self
    }

    /// What it says in words.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.0.message = Some(message.into());
        self
    }

    /// When it was. Left out: the server's clock.
    pub fn create_time(mut self, time: SystemTime) -> Self {
        self.0.create_time = Some(time.into());
        self
    }

    /// A label to keep with it.
    pub fn label(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.0.labels.insert(name.into(), text.into());
        self
    }
}

/// A snapshot to save. Its id is made here; saving an id again replaces what it held.
#[derive(Clone, Debug)]
pub struct NewCheckpoint(pub(crate) v1::Checkpoint);

impl NewCheckpoint {
    /// A snapshot of a state, taken at the event with this id and number.
    pub fn new(event_id: impl Into<String>, sequence: i64, state: Value) -> Self {
        Self(v1::Checkpoint {
            id: new_id(),
            event_id: event_id.into(),
            sequence,
            state: Some(state.into()),
            ..Default::default()
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// An id of one's own: of 1 to 256 bytes, unique on its branch. Empty: one is made up again.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.0.id = or_new(id);
        self
    }

    /// The tasks still to run: a JSON list. Left out: none.
    pub fn active(mut self, active: Value) -> Self {
        self.0.active = Some(active.into());
        self
    }

    /// How the thread stands: `completed`, `forked`, … Left out: `running`.
    pub fn status(mut self, status: impl Into<String>) -> Self {
        self.0.status = status.into();
        self
    }

    /// When it was taken. Left out: the server's clock.
    pub fn create_time(mut self, time: SystemTime) -> Self {
        self.0.create_time = Some(time.into());
        self
    }

    /// The checkpoint before it.
    pub fn parent_id(mut self, id: impl Into<String>) -> Self {
        self.0.parent_id = Some(id.into());
        self
    }

    /// What else to keep with it.
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.0.metadata = Some(metadata.into());
        self
    }

    /// A label that [`list_checkpoints`](crate::State::list_checkpoints) can choose by.
    pub fn label(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.0.labels.insert(name.into(), text.into());
        self
    }
}
