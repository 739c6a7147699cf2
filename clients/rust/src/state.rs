//! StateStore: a thread's events in order, snapshots of its state, and its branches.

use std::time::Duration;

use crate::{
    Appended, Branch, Checkpoint, DeletedThread, Error, Event, Forked, History, NewCheckpoint, NewEvent, Record,
    Thread,
    call::{Call, Rpc, rpcs},
    connection::Connection,
    new::{new_id, or_new},
    pages::{Pages, paged},
    places::{BranchPlace, Kept},
    reading::Reading,
    records::all,
    time::duration,
    v1,
};

/// A branch's events, as a stream. See [`State::stream_history`].
pub type Events = Reading<BranchPlace<Event>>;

/// A branch's events and checkpoints, as a stream. See [`Reading::with_checkpoints`].
pub type Records = Reading<BranchPlace<Record>>;

/// The history of threads: events in order, snapshots of state, and branches.
///
/// Ids are 1 to 256 bytes, and are never trimmed. Where no branch is given it is `main`.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) connection: Connection,
}

impl State {
    /// Stores an event under the number given; gives it as stored.
    ///
    /// Fails with [`Reason::EventExists`](crate::Reason::EventExists) where the branch holds an event of this id that
    /// says something else.
    pub fn append_event(
        &self,
        thread_id: impl Into<String>,
        sequence: i64,
        event: NewEvent,
    ) -> Call<v1::AppendEventRequest> {
        let event = v1::Event { thread_id: thread_id.into(), sequence, ..event.0 };
        self.call(v1::AppendEventRequest { event: Some(event) })
    }

    /// Stores an event with the next number of its branch; gives it as stored.
    ///
    /// Fails with [`Reason::EventExists`](crate::Reason::EventExists) as [`append_event`](State::append_event) does,
    /// and with [`Reason::SequenceMismatch`](crate::Reason::SequenceMismatch) where the branch's highest number is not
    /// [the expected one](Call::expected_last_sequence).
    pub fn append_next_event(&self, thread_id: impl Into<String>, event: NewEvent) -> Call<v1::AppendNextEventRequest> {
        let event = v1::Event { thread_id: thread_id.into(), ..event.0 };
        self.call(v1::AppendNextEventRequest { event: Some(event), expected_last_sequence: None })
    }

    /// Stores several events of one branch with its next numbers, all or none.
    ///
    /// Fails as [`append_next_event`](State::append_next_event) does.
    pub fn append_events(
        &self,
        thread_id: impl Into<String>,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Call<v1::AppendEventsRequest> {
        let events = events.into_iter().map(|event| event.0).collect();
        self.call(v1::AppendEventsRequest { thread_id: thread_id.into(), events, ..Default::default() })
    }

    /// Stores a snapshot of state, in place of what was saved under its id; gives it as stored.
    pub fn save_checkpoint(
        &self,
        thread_id: impl Into<String>,
        checkpoint: NewCheckpoint,
    ) -> Call<v1::SaveCheckpointRequest> {
        let checkpoint = v1::Checkpoint { thread_id: thread_id.into(), ..checkpoint.0 };
        self.call(v1::SaveCheckpointRequest { checkpoint: Some(checkpoint) })
    }

    /// Reads the checkpoint with the highest number, or the highest [up to an event](Call::at_event); gives `None`
    /// where there is none.
    ///
    /// Fails with [`Reason::EventNotFound`](crate::Reason::EventNotFound) where the branch holds no such event.
    pub fn latest_checkpoint(&self, thread_id: impl Into<String>) -> Call<v1::LatestCheckpointRequest> {
        self.call(v1::LatestCheckpointRequest { thread_id: thread_id.into(), ..Default::default() })
    }

    /// Lists a branch's checkpoints, the one saved last first.
    pub fn list_checkpoints(&self, thread_id: impl Into<String>) -> Pages<v1::ListCheckpointsRequest> {
        let thread_id = thread_id.into();
        Pages::new(&self.connection, v1::ListCheckpointsRequest { thread_id, ..Default::default() })
    }

    /// Reads a whole branch in one message; it is empty where there is none.
    ///
    /// Fails with [`Reason::HistoryTooLarge`](crate::Reason::HistoryTooLarge) where it does not fit one:
    /// [`stream_history`](State::stream_history) reads it.
    pub fn get_history(&self, thread_id: impl Into<String>) -> Call<v1::GetHistoryRequest> {
        self.call(v1::GetHistoryRequest { thread_id: thread_id.into(), branch_id: String::new() })
    }

    /// Streams a branch's events in the order they were stored, from any point on.
    ///
    /// Fails with [`Reason::RevisionGone`](crate::Reason::RevisionGone) or
    /// [`Reason::RevisionAhead`](crate::Reason::RevisionAhead) where it cannot go on
    /// [after a revision](Reading::after_revision).
    pub fn stream_history(&self, thread_id: impl Into<String>) -> Events {
        let request = v1::StreamHistoryRequest { thread_id: thread_id.into(), ..Default::default() };
        Reading::new(&self.connection, BranchPlace::new(request))
    }

    /// Streams a branch's events as [`stream_history`](State::stream_history) does, and then each that is stored, until
    /// it is dropped. The thread need not be there yet.
    ///
    /// Its [`revision`](Reading::revision) is the cursor to keep where a later run of the program is to go on; a lost
    /// connection it makes again by itself. When the thread is deleted it fails with
    /// [`Reason::RevisionGone`](crate::Reason::RevisionGone).
    pub fn tail(&self, thread_id: impl Into<String>) -> Events {
        let request = v1::StreamHistoryRequest { thread_id: thread_id.into(), follow: true, ..Default::default() };
        Reading::new(&self.connection, BranchPlace::new(request))
    }

    /// Records a new branch that starts at an event; with its first checkpoint and event, in one step.
    ///
    /// Fails with [`Reason::BranchExists`](crate::Reason::BranchExists) where the name is taken, or `main`, and with
    /// [`Reason::ThreadNotFound`](crate::Reason::ThreadNotFound),
    /// [`Reason::BranchNotFound`](crate::Reason::BranchNotFound) or
    /// [`Reason::EventNotFound`](crate::Reason::EventNotFound) where there is nothing to fork.
    pub fn fork(&self, thread_id: impl Into<String>, from_event_id: impl Into<String>) -> Call<v1::ForkRequest> {
        self.call(v1::ForkRequest {
            thread_id: thread_id.into(),
            from_event_id: from_event_id.into(),
            request_id: new_id(),
            ..Default::default()
        })
    }

    /// Lists the branches forked in a thread, oldest first.
    pub fn list_branches(&self, thread_id: impl Into<String>) -> Pages<v1::ListBranchesRequest> {
        let thread_id = thread_id.into();
        Pages::new(&self.connection, v1::ListBranchesRequest { thread_id, ..Default::default() })
    }

    /// Lists threads, sorted by id.
    pub fn list_threads(&self) -> Pages<v1::ListThreadsRequest> {
        Pages::new(&self.connection, v1::ListThreadsRequest::default())
    }

    /// Removes a thread with all its branches; no error where there is none.
    ///
    /// Is sent once: after a lost answer a second try would say that nothing was removed.
    pub fn delete_thread(&self, thread_id: impl Into<String>) -> Call<v1::DeleteThreadRequest> {
        self.call(v1::DeleteThreadRequest { thread_id: thread_id.into() })
    }

    fn call<R: Rpc>(&self, request: R) -> Call<R> {
        Call::new(&self.connection, request)
    }
}

impl Call<v1::AppendEventRequest> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        if let Some(event) = &mut self.request.event {
            event.branch_id = branch_id.into();
        }
        self
    }
}

impl Call<v1::AppendNextEventRequest> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        if let Some(event) = &mut self.request.event {
            event.branch_id = branch_id.into();
        }
        self
    }

    /// The branch's highest number, 0 where it has none. Left out: any.
    pub fn expected_last_sequence(mut self, sequence: i64) -> Self {
        self.request.expected_last_sequence = Some(sequence);
        self
    }
}

impl Call<v1::AppendEventsRequest> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        self.request.branch_id = branch_id.into();
        self
    }

    /// The branch's highest number, 0 where it has none. Left out: any.
    pub fn expected_last_sequence(mut self, sequence: i64) -> Self {
        self.request.expected_last_sequence = Some(sequence);
        self
    }
}

impl Call<v1::SaveCheckpointRequest> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        if let Some(checkpoint) = &mut self.request.checkpoint {
            checkpoint.branch_id = branch_id.into();
        }
        self
    }
}

impl Call<v1::LatestCheckpointRequest> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        self.request.branch_id = branch_id.into();
        self
    }

    /// Only checkpoints up to this event's number count.
    pub fn at_event(mut self, event_id: impl Into<String>) -> Self {
        self.request.at_event_id = Some(event_id.into());
        self
    }
}

impl Call<v1::GetHistoryRequest> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        self.request.branch_id = branch_id.into();
        self
    }
}

impl Call<v1::ForkRequest> {
    /// The branch to fork. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        self.request.branch_id = branch_id.into();
        self
    }

    /// The new branch's id. Left out: the server makes one up.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.request.name = Some(name.into());
        self
    }

    /// The first checkpoint of the new branch.
    pub fn checkpoint(mut self, checkpoint: NewCheckpoint) -> Self {
        self.request.checkpoint = Some(checkpoint.0);
        self
    }

    /// The first event of the new branch.
    pub fn event(mut self, event: NewEvent) -> Self {
        self.request.event = Some(event.0);
        self
    }

    /// A fork with an id that was used already gets the first answer, and makes no second branch. Left out: one of its
    /// own.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request.request_id = or_new(id);
        self
    }
}

impl Pages<v1::ListCheckpointsRequest> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        self.request.branch_id = branch_id.into();
        self
    }

    /// Only checkpoints that carry this label; given several times, all of them.
    pub fn label(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.request.labels.insert(name.into(), text.into());
        self
    }
}

impl Pages<v1::ListBranchesRequest> {
    /// Whether `main` is listed too, and branches that were written to without a fork.
    pub fn include_unforked(mut self, include: bool) -> Self {
        self.request.include_unforked = include;
        self
    }
}

impl Pages<v1::ListThreadsRequest> {
    /// Only threads whose id begins with it, literally.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.request.prefix = prefix.into();
        self
    }
}

impl<K: Kept> Reading<BranchPlace<K>> {
    /// The branch. Left out: `main`.
    pub fn branch(mut self, branch_id: impl Into<String>) -> Self {
        self.place.request.branch_id = branch_id.into();
        self
    }

    /// Only what was stored after this revision. Left out, or 0: from the start.
    pub fn after_revision(mut self, revision: i64) -> Self {
        self.place.go_on_after(revision);
        self
    }

    /// At most so many events. Left out, or 0: all.
    pub fn limit(mut self, events: i64) -> Self {
        self.place.request.limit = events;
        self
    }

    /// Begins with the last so many events, oldest of them first. Not together with `after_revision` or `limit`.
    pub fn last(mut self, events: i64) -> Self {
        self.place.request.last = events;
        self
    }

    /// Whether what the branch inherits comes first: its ancestors' events up to each fork.
    pub fn include_ancestors(mut self, include: bool) -> Self {
        self.place.request.include_ancestors = include;
        self
    }

    /// How often the server gives a sign of life, at least 100 ms, which moves [`revision`](Reading::revision). For
    /// [`tail`](State::tail). Left out: never.
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.place.request.heartbeat = Some(duration(interval));
        self
    }
}

impl Events {
    /// The same with the branch's checkpoints, where they were saved among the events.
    pub fn with_checkpoints(self) -> Records {
        self.map_place(|place| {
            BranchPlace::new(v1::StreamHistoryRequest { include_checkpoints: true, ..place.request })
        })
    }
}

fn event(event: Option<v1::Event>) -> crate::Result<Event> {
    event.ok_or_else(|| Error::malformed("event"))?.try_into()
}

rpcs! {
    AppendEventRequest: state.append_event, repeatable, AppendEventResponse => Event, |answer| event(answer.event);
    AppendNextEventRequest: state.append_next_event, repeatable, AppendNextEventResponse => Event, |answer| {
        event(answer.event)
    };
    AppendEventsRequest: state.append_events, repeatable, AppendEventsResponse => Appended, |answer| Ok(Appended {
        first_sequence: answer.first_sequence,
        last_sequence: answer.last_sequence,
        ids: answer.ids,
        revision: answer.revision,
    });
    SaveCheckpointRequest: state.save_checkpoint, repeatable, SaveCheckpointResponse => Checkpoint, |answer| {
        answer.checkpoint.ok_or_else(|| Error::malformed("checkpoint"))?.try_into()
    };
    LatestCheckpointRequest: state.latest_checkpoint, repeatable, LatestCheckpointResponse => Option<Checkpoint>,
        |answer| answer.checkpoint.map(Checkpoint::try_from).transpose();
    ListCheckpointsRequest: state.list_checkpoints, repeatable, ListCheckpointsResponse => (Vec<Checkpoint>, String),
        |answer| Ok((all(answer.checkpoints)?, answer.next_page_token));
    GetHistoryRequest: state.get_history, repeatable, GetHistoryResponse => History, |answer| {
        answer.history.ok_or_else(|| Error::malformed("history"))?.try_into()
    };
    ForkRequest: state.fork, repeatable, ForkResponse => Forked, |answer| Ok(Forked {
        branch: answer.branch.ok_or_else(|| Error::malformed("branch"))?.try_into()?,
        checkpoint: answer.checkpoint.map(Checkpoint::try_from).transpose()?,
        event: answer.event.map(Event::try_from).transpose()?,
    });
    ListBranchesRequest: state.list_branches, repeatable, ListBranchesResponse => (Vec<Branch>, String), |answer| {
        Ok((all(answer.branches)?, answer.next_page_token))
    };
    ListThreadsRequest: state.list_threads, repeatable, ListThreadsResponse => (Vec<Thread>, String), |answer| {
        Ok((all(answer.threads)?, answer.next_page_token))
    };
    DeleteThreadRequest: state.delete_thread, once, DeleteThreadResponse => DeletedThread, |answer| Ok(DeletedThread {
        events_deleted: answer.events_deleted,
        checkpoints_deleted: answer.checkpoints_deleted,
    });
}

paged! {
    ListCheckpointsRequest of Checkpoint;
    ListBranchesRequest of Branch;
    ListThreadsRequest of Thread;
}
