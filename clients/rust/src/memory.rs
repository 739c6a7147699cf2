//! Memory: versioned values under keys, in scopes.

use std::time::Duration;

use crate::{
    Entries, Entry, PurgeRecord, Purged, Scope, ScopeInfo, Value, Write,
    call::{Call, rpcs},
    connection::Connection,
    new::{new_id, or_new},
    pages::{Pages, paged},
    places::{VersionsPlace, WatchPlace},
    reading::Reading,
    records::all,
    time::duration,
    v1,
};

/// Every version of a key, as a stream. See [`Memory::history`].
pub type Versions = Reading<VersionsPlace>;

/// The writes of a scope, as a stream that goes on. See [`Memory::watch`].
pub type Watch = Reading<WatchPlace>;

/// Versioned values under keys, in scopes that outlive a program.
///
/// Keys and scopes are trimmed by the server, and consist of letters, digits and `._-/`.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(crate) connection: Connection,
}

impl Memory {
    /// Writes a new version of a key; gives it without its value.
    ///
    /// Fails with [`Reason::VersionMismatch`](crate::Reason::VersionMismatch) where the current version is not
    /// [the expected one](Call::expected_version).
    pub fn set(&self, scope: impl Into<Scope>, key: impl Into<String>, value: Value) -> Call<v1::MemorySetRequest> {
        let Write(write) = Write::new(key, value);
        self.call(v1::MemorySetRequest { scope: Some(scope.into().into()), request_id: new_id(), ..write })
    }

    /// Writes several keys of one scope, all or none; gives the new versions without their values.
    ///
    /// Fails with [`Reason::VersionMismatch`](crate::Reason::VersionMismatch) where one of the current versions is not
    /// the expected one.
    pub fn batch_set(
        &self,
        scope: impl Into<Scope>,
        writes: impl IntoIterator<Item = Write>,
    ) -> Call<v1::MemoryBatchSetRequest> {
        let scope = v1::Scope::from(scope.into());
        let in_scope = |Write(write)| v1::MemorySetRequest { scope: Some(scope.clone()), ..write };
        let sets = writes.into_iter().map(in_scope).collect();
        self.call(v1::MemoryBatchSetRequest { sets, request_id: new_id() })
    }

    /// Reads the newest version of a key, or [one of them](Call::version); gives `None` where it is not there, deleted
    /// or expired.
    pub fn get(&self, scope: impl Into<Scope>, key: impl Into<String>) -> Call<v1::MemoryGetRequest> {
        self.call(v1::MemoryGetRequest { scope: Some(scope.into().into()), key: key.into(), ..Default::default() })
    }

    /// Reads the newest versions of several keys of one scope, from one point in time.
    ///
    /// Fails with [`Reason::LimitReached`](crate::Reason::LimitReached) where the values do not fit one message.
    pub fn batch_get<K: Into<String>>(
        &self,
        scope: impl Into<Scope>,
        keys: impl IntoIterator<Item = K>,
    ) -> Call<v1::MemoryBatchGetRequest> {
        let keys = keys.into_iter().map(Into::into).collect();
        self.call(v1::MemoryBatchGetRequest { scope: Some(scope.into().into()), keys })
    }

    /// Lists the newest versions of the keys that have a value, sorted by key, without values unless
    /// [asked for](Pages::include_values).
    pub fn list(&self, scope: impl Into<Scope>) -> Pages<v1::MemoryListRequest> {
        let scope = Some(scope.into().into());
        Pages::new(&self.connection, v1::MemoryListRequest { scope, ..Default::default() })
    }

    /// Streams every version of a key, tombstones too, newest first and without values unless asked otherwise.
    pub fn history(&self, scope: impl Into<Scope>, key: impl Into<String>) -> Versions {
        let scope = Some(scope.into().into());
        let request = v1::MemoryHistoryRequest { scope, key: key.into(), ..Default::default() };
        Reading::new(&self.connection, VersionsPlace::new(request))
    }

    /// Hides a key behind a tombstone; gives that, or the one that stood there already; `None` where the key never had
    /// a value.
    ///
    /// Fails with [`Reason::VersionMismatch`](crate::Reason::VersionMismatch) where the current version is not
    /// [the expected one](Call::expected_version).
    pub fn delete(&self, scope: impl Into<Scope>, key: impl Into<String>) -> Call<v1::MemoryDeleteRequest> {
        self.call(v1::MemoryDeleteRequest {
            scope: Some(scope.into().into()),
            key: key.into(),
            request_id: new_id(),
            ..Default::default()
        })
    }

    /// Removes for good all but [the newest versions](Call::keep) of a key; a tombstone counts as a version.
    ///
    /// Is sent once: after a lost answer a second try would say that nothing was removed.
    pub fn purge(&self, scope: impl Into<Scope>, key: impl Into<String>) -> Call<v1::MemoryPurgeRequest> {
        let scope = Some(scope.into().into());
        self.call(v1::MemoryPurgeRequest { scope, key: Some(key.into()), ..Default::default() })
    }

    /// Removes for good all but [the newest versions](Call::keep) of every key of a scope. Deleted keys are passed
    /// over, unless [included](Call::include_deleted).
    ///
    /// Is sent once, as [`purge`](Memory::purge) is.
    pub fn purge_all(&self, scope: impl Into<Scope>) -> Call<v1::MemoryPurgeRequest> {
        let scope = Some(scope.into().into());
        self.call(v1::MemoryPurgeRequest { scope, all_keys: true, ..Default::default() })
    }

    /// Lists what was purged in a scope, newest first.
    pub fn list_purges(&self, scope: impl Into<Scope>) -> Pages<v1::MemoryListPurgesRequest> {
        let scope = Some(scope.into().into());
        Pages::new(&self.connection, v1::MemoryListPurgesRequest { scope, ..Default::default() })
    }

    /// Lists the scopes that hold a key with a value, by name, then namespace, flow, execution.
    pub fn list_scopes(&self) -> Pages<v1::MemoryListScopesRequest> {
        Pages::new(&self.connection, v1::MemoryListScopesRequest::default())
    }

    /// Follows the writes of a scope: those [after a revision](Reading::after_revision), or else from when the server
    /// [answers](Reading::opened) on.
    ///
    /// Fails with [`Reason::RevisionGone`](crate::Reason::RevisionGone) where what followed the revision was removed,
    /// and with [`Reason::RevisionAhead`](crate::Reason::RevisionAhead) where it was never reached.
    pub fn watch(&self, scope: impl Into<Scope>) -> Watch {
        let scope = Some(scope.into().into());
        let request = v1::MemoryWatchRequest { scope, include_values: true, ..Default::default() };
        Reading::new(&self.connection, WatchPlace::new(request))
    }

    fn call<R: crate::call::Rpc>(&self, request: R) -> Call<R> {
        Call::new(&self.connection, request)
    }
}

impl Call<v1::MemorySetRequest> {
    /// The key's current version, 0 where it must have no value. Left out: any.
    pub fn expected_version(self, version: i64) -> Self {
        self.with(|write| write.expected_version(version))
    }

    /// How long until the version expires. Left out: it never does.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|write| write.ttl(ttl))
    }

    /// A label to keep with the version.
    pub fn label(self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.with(|write| write.label(name, text))
    }

    /// Who writes.
    pub fn execution_id(self, id: impl Into<String>) -> Self {
        self.with(|write| write.execution_id(id))
    }

    /// The flow that writes.
    pub fn flow_id(self, id: impl Into<String>) -> Self {
        self.with(|write| write.flow_id(id))
    }

    /// That flow's name.
    pub fn flow_name(self, name: impl Into<String>) -> Self {
        self.with(|write| write.flow_name(name))
    }

    /// A write with an id that was used already gets the first answer, and writes nothing. Left out: one of its own.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request.request_id = or_new(id);
        self
    }

    fn with(mut self, change: impl FnOnce(Write) -> Write) -> Self {
        self.request = change(Write(self.request)).0;
        self
    }
}

impl Call<v1::MemoryBatchSetRequest> {
    /// A batch with an id that was used already gets the first answer, and writes nothing. Left out: one of its own.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request.request_id = or_new(id);
        self
    }
}

impl Call<v1::MemoryGetRequest> {
    /// The version to read. Left out: the newest.
    pub fn version(mut self, version: i64) -> Self {
        self.request.version = Some(version);
        self
    }

    /// Gives the tombstone where the version read is one.
    pub fn include_deleted(mut self, include: bool) -> Self {
        self.request.include_deleted = include;
        self
    }
}

impl Call<v1::MemoryDeleteRequest> {
    /// The key's current version, 0 where it must have no value. Left out: any.
    pub fn expected_version(mut self, version: i64) -> Self {
        self.request.expected_version = Some(version);
        self
    }

    /// Who deletes.
    pub fn execution_id(mut self, id: impl Into<String>) -> Self {
        self.request.execution_id = Some(id.into());
        self
    }

    /// The flow that deletes.
    pub fn flow_id(mut self, id: impl Into<String>) -> Self {
        self.request.flow_id = Some(id.into());
        self
    }

    /// That flow's name.
    pub fn flow_name(mut self, name: impl Into<String>) -> Self {
        self.request.flow_name = Some(name.into());
        self
    }

    /// A delete with an id that was used already gets the first answer, and deletes nothing. Left out: one of its own.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request.request_id = or_new(id);
        self
    }
}

impl Call<v1::MemoryPurgeRequest> {
    /// How many of the newest versions of each key stay. Left out: none.
    pub fn keep(mut self, versions: i32) -> Self {
        self.request.keep = versions;
        self
    }

    /// Removes deleted keys whole, whatever is to be kept. For [`purge_all`](Memory::purge_all).
    pub fn include_deleted(mut self, include: bool) -> Self {
        self.request.include_deleted = include;
        self
    }
}

impl Pages<v1::MemoryListRequest> {
    /// Only keys that begin with it, literally.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.request.prefix = prefix.into();
        self
    }

    /// Whether entries carry their values.
    pub fn include_values(mut self, include: bool) -> Self {
        self.request.include_values = include;
        self
    }

    /// Whether deleted keys are listed, as their tombstones.
    pub fn include_deleted(mut self, include: bool) -> Self {
        self.request.include_deleted = include;
        self
    }
}

impl Versions {
    /// Whether the oldest version comes first.
    pub fn oldest_first(mut self, oldest_first: bool) -> Self {
        self.place.request.oldest_first = oldest_first;
        self
    }

    /// Whether entries carry their values.
    pub fn include_values(mut self, include: bool) -> Self {
        self.place.request.include_values = include;
        self
    }

    /// At most so many versions. Left out, or 0: all.
    pub fn limit(mut self, versions: i64) -> Self {
        self.place.request.limit = versions;
        self
    }
}

impl Watch {
    /// Only keys that begin with it, literally.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.place.request.prefix = prefix.into();
        self
    }

    /// Everything after this revision first; 0: all there is. Left out: only what is written from now on.
    pub fn after_revision(mut self, revision: i64) -> Self {
        self.place.go_on_after(revision);
        self
    }

    /// Whether entries carry their values. Left out: they do.
    pub fn include_values(mut self, include: bool) -> Self {
        self.place.request.include_values = include;
        self
    }

    /// How often the server gives a sign of life, at least 100 ms, which moves [`revision`](Reading::revision). Left
    /// out: never.
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.place.request.heartbeat = Some(duration(interval));
        self
    }
}

rpcs! {
    MemorySetRequest: memory.set, repeatable, MemorySetResponse => Entry, |answer| {
        answer.entry.ok_or_else(|| crate::Error::malformed("entry"))?.try_into()
    };
    MemoryBatchSetRequest: memory.batch_set, repeatable, MemoryBatchSetResponse => Vec<Entry>, |answer| {
        all(answer.entries)
    };
    MemoryGetRequest: memory.get, repeatable, MemoryGetResponse => Option<Entry>, |answer| {
        answer.entry.map(Entry::try_from).transpose()
    };
    MemoryBatchGetRequest: memory.batch_get, repeatable, MemoryBatchGetResponse => Entries, |answer| {
        Ok(Entries { entries: all(answer.entries)?, missing_keys: answer.missing_keys })
    };
    MemoryListRequest: memory.list, repeatable, MemoryListResponse => (Vec<Entry>, String), |answer| {
        Ok((all(answer.entries)?, answer.next_page_token))
    };
    MemoryDeleteRequest: memory.delete, repeatable, MemoryDeleteResponse => Option<Entry>, |answer| {
        answer.entry.map(Entry::try_from).transpose()
    };
    MemoryPurgeRequest: memory.purge, once, MemoryPurgeResponse => Purged, |answer| {
        Ok(Purged { versions_deleted: answer.versions_deleted, keys_affected: answer.keys_affected })
    };
    MemoryListPurgesRequest: memory.list_purges, repeatable, MemoryListPurgesResponse => (Vec<PurgeRecord>, String),
        |answer| Ok((all(answer.purges)?, answer.next_page_token));
    MemoryListScopesRequest: memory.list_scopes, repeatable, MemoryListScopesResponse => (Vec<ScopeInfo>, String),
        |answer| Ok((all(answer.scopes)?, answer.next_page_token));
}

paged! {
    MemoryListRequest of Entry;
    MemoryListPurgesRequest of PurgeRecord;
    MemoryListScopesRequest of ScopeInfo;
}
