//! Where each kind of stream stands, and how it goes on from there.

use std::{collections::VecDeque, marker::PhantomData, time::Duration};

use crate::{
    Checkpoint, Entry, Error, Event, Record, Result,
    connection::Connection,
    reading::{Opening, Place},
    records::all,
    v1,
};

/// A line of records that is counted in revisions.
#[derive(Debug)]
struct Line<R> {
    records: VecDeque<R>,
    revision: i64,
    caught_up: bool,
    began: bool,
    /// Where the message ends that the records came in.
    end: Option<(i64, bool)>,
}

impl<R> Line<R> {
    fn after(revision: i64) -> Self {
        Self { records: VecDeque::new(), revision, caught_up: false, began: false, end: None }
    }

    fn take(&mut self, records: Vec<R>, revision: i64, caught_up: bool) {
        self.began = true;
        self.records = records.into();
        self.end = Some((revision, caught_up));
        self.move_to_end();
    }

    /// Hands out a record and moves on with it; with a message's last, to that message's end.
    fn hand_out(&mut self, revision_of: impl Fn(&R) -> i64) -> Option<R> {
        let record = self.records.pop_front()?;
        self.revision = revision_of(&record);
        self.move_to_end();
        Some(record)
    }

    fn move_to_end(&mut self) {
        if let (true, Some((revision, caught_up))) = (self.records.is_empty(), self.end) {
            self.revision = revision;
            self.caught_up |= caught_up;
            self.end = None;
        }
    }
}

/// What a read of a branch hands out: its events alone, or checkpoints among them.
pub trait Kept: Sized + Send + Unpin {
    /// Makes an item of a record; `None` where the read is not of its kind.
    fn of(record: Record) -> Option<Self>;
}

impl Kept for Event {
    fn of(record: Record) -> Option<Self> {
        match record {
            Record::Event(event) => Some(event),
            Record::Checkpoint(_) => None,
        }
    }
}

impl Kept for Record {
    fn of(record: Record) -> Option<Self> {
        Some(record)
    }
}

/// A place on a branch.
#[derive(Debug)]
pub struct BranchPlace<K> {
    pub(crate) request: v1::StreamHistoryRequest,
    line: Line<Record>,
    events: i64,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kept> BranchPlace<K> {
    pub(crate) fn new(request: v1::StreamHistoryRequest) -> Self {
        Self { line: Line::after(request.after_revision), request, events: 0, kind: PhantomData }
    }

    pub(crate) fn go_on_after(&mut self, revision: i64) {
        self.request.after_revision = revision;
        self.line = Line::after(revision);
    }

    /// The request that goes on from here; `None` where the read has all it asked for.
    fn rest(&self) -> Option<v1::StreamHistoryRequest> {
        let mut request = self.request.clone();
        if self.line.began {
            // A read of the last n that does not follow is over after n, also where it had to go on.
            let last = if request.follow { 0 } else { request.last };
            let limit = if request.limit == 0 { last } else { request.limit };
            if limit > 0 && self.events >= limit {
                return None;
            }
            request.after_revision = self.line.revision;
            request.last = 0;
            request.limit = if limit > 0 { limit - self.events } else { 0 };
        }
        Some(request)
    }
}

fn revision_of(record: &Record) -> i64 {
    match record {
        Record::Event(event) => event.revision,
        Record::Checkpoint(checkpoint) => checkpoint.revision,
    }
}

impl<K: Kept> Place for BranchPlace<K> {
    type Message = v1::StreamHistoryResponse;
    type Item = K;

    fn open(&self, connection: &Connection, time_left: Option<Duration>) -> Option<Opening<Self::Message>> {
        let request = connection.request(self.rest()?, time_left);
        let mut stub = connection.state();
        Some(Box::pin(async move { stub.stream_history(request).await }))
    }

    fn take(&mut self, message: Self::Message) -> Result<()> {
        let events = all::<_, Event>(message.events)?;
        let checkpoints = all::<_, Checkpoint>(message.checkpoints)?;
        let mut records: Vec<_> = events.into_iter().map(Record::Event).collect();
        records.extend(checkpoints.into_iter().map(Record::Checkpoint));
        records.sort_by_key(revision_of);
        self.line.take(records, message.revision, message.caught_up);
        Ok(())
    }

    fn hand_out(&mut self) -> Option<K> {
        while let Some(record) = self.line.hand_out(revision_of) {
            self.events += i64::from(matches!(record, Record::Event(_)));
            if let Some(item) = K::of(record) {
                return Some(item);
            }
        }
        None
    }

    fn revision(&self) -> i64 {
        self.line.revision
    }

    fn caught_up(&self) -> bool {
        self.line.caught_up
    }

    fn follows(&self) -> bool {
        self.request.follow
    }
}

/// A place among the writes of a scope.
#[derive(Debug)]
pub struct WatchPlace {
    pub(crate) request: v1::MemoryWatchRequest,
    line: Line<Entry>,
}

impl WatchPlace {
    pub(crate) fn new(request: v1::MemoryWatchRequest) -> Self {
        Self { request, line: Line::after(0) }
    }

    pub(crate) fn go_on_after(&mut self, revision: i64) {
        self.request.after_revision = Some(revision);
        self.line = Line::after(revision);
    }
}

impl Place for WatchPlace {
    type Message = v1::MemoryWatchResponse;
    type Item = Entry;

    fn open(&self, connection: &Connection, time_left: Option<Duration>) -> Option<Opening<Self::Message>> {
        let mut request = self.request.clone();
        if self.line.began {
            request.after_revision = Some(self.line.revision);
        }
        let request = connection.request(request, time_left);
        let mut stub = connection.memory();
        Some(Box::pin(async move { stub.watch(request).await }))
    }

    fn take(&mut self, message: Self::Message) -> Result<()> {
        self.line.take(all(message.entries)?, message.revision, message.caught_up);
        Ok(())
    }

    fn hand_out(&mut self) -> Option<Entry> {
        self.line.hand_out(|entry| entry.revision)
    }

    fn revision(&self) -> i64 {
        self.line.revision
    }

    fn caught_up(&self) -> bool {
        self.line.caught_up
    }

    fn follows(&self) -> bool {
        true
    }
}

/// A place among the versions of a key, counted in versions: this stream has no cursor of its own.
#[derive(Debug)]
pub struct VersionsPlace {
    pub(crate) request: v1::MemoryHistoryRequest,
    entries: VecDeque<Entry>,
    last: Option<(i64, i64)>,
    handed_out: i64,
}

impl VersionsPlace {
    pub(crate) fn new(request: v1::MemoryHistoryRequest) -> Self {
        Self { request, entries: VecDeque::new(), last: None, handed_out: 0 }
    }

    fn is_over(&self) -> bool {
        self.request.limit > 0 && self.handed_out >= self.request.limit
    }

    fn is_ahead(&self, version: i64) -> bool {
        match self.last {
            None => true,
            Some((last, _)) if self.request.oldest_first => version > last,
            Some((last, _)) => version < last,
        }
    }
}

impl Place for VersionsPlace {
    type Message = v1::MemoryHistoryResponse;
    type Item = Entry;

    fn open(&self, connection: &Connection, time_left: Option<Duration>) -> Option<Opening<Self::Message>> {
        let mut request = self.request.clone();
        if self.last.is_some() {
            if self.is_over() {
                return None;
            }
            request.limit = 0; // there may be versions on top by now, which would count
        }
        let request = connection.request(request, time_left);
        let mut stub = connection.memory();
        Some(Box::pin(async move { stub.history(request).await }))
    }

    fn take(&mut self, message: Self::Message) -> Result<()> {
        self.entries = message.entries.into_iter().map(Entry::try_from).collect::<Result<_, Error>>()?;
        Ok(())
    }

    fn hand_out(&mut self) -> Option<Entry> {
        while let Some(entry) = self.entries.pop_front() {
            if self.is_ahead(entry.version) && !self.is_over() {
                self.last = Some((entry.version, entry.revision));
                self.handed_out += 1;
                return Some(entry);
            }
        }
        None
    }

    fn revision(&self) -> i64 {
        self.last.map_or(0, |(_, revision)| revision)
    }

    fn caught_up(&self) -> bool {
        false
    }

    fn follows(&self) -> bool {
        false
    }
}
