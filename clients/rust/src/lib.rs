#![doc = include_str!("../README.md")]

mod call;
mod client;
mod connection;
mod error;
mod memory;
mod new;
mod pages;
mod places;
mod reading;
mod records;
mod scratch;
mod state;
mod time;
mod value;

/// The messages that travel, made from the contract. Calls are named after the request they send; nobody else needs
/// them, and they change with the version of prost.
pub mod v1 {
    #![allow(missing_docs, clippy::all)]
    tonic::include_proto!("statekeep.v1");
}

/// How to connect by TLS: see [`ClientBuilder::tls`].
#[cfg(feature = "tls")]
pub mod tls {
    pub use tonic::transport::{Certificate, ClientTlsConfig, Identity};
}

pub use bytes::Bytes;
pub use tonic::Code;

pub use crate::{
    call::Call,
    client::{Client, ClientBuilder},
    error::{Error, FieldViolation, Reason, Result},
    memory::{Memory, Versions, Watch},
    new::{NewCheckpoint, NewEvent, Write},
    pages::Pages,
    reading::Reading,
    records::{
        Appended, Branch, Checkpoint, DeletedThread, Entries, Entry, Event, Forked, History, Instance, PurgeRecord,
        Purged, Record, Scope, ScopeInfo, ScopeType, ScratchItem, Thread,
    },
    scratch::{Attachment, Scratch},
    state::{Events, Records, State},
    value::{Content, Value},
};
