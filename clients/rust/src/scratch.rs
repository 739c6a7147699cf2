//! Scratch: values that live as long as one instance of a program.

use std::time::Duration;

use tonic::Streaming;

use crate::{
    Error, Instance, Result, ScratchItem, Value,
    call::{Call, Rpc, rpcs},
    connection::Connection,
    time::{duration, optional_time},
    v1,
};

/// Values under keys, for as long as one instance of a program lives. Nothing of it is ever written to a store.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub(crate) connection: Connection,
}

impl Scratch {
    /// Begins an instance, or empties it where it was used before; an empty id has the server make one up.
    ///
    /// Is sent once: after a lost answer a second try would not say what was cleared.
    pub fn open(&self, instance_id: impl Into<String>) -> Call<v1::ScratchOpenRequest> {
        self.call(v1::ScratchOpenRequest { instance_id: instance_id.into(), idle_ttl: None })
    }

    /// Opens an instance that lives exactly as long as what this returns.
    ///
    /// Fails with [`Reason::InstanceAttached`](crate::Reason::InstanceAttached) where it is attached already.
    pub async fn attach(&self, instance_id: impl Into<String>) -> Result<Attachment> {
        let request = v1::ScratchAttachRequest { instance_id: instance_id.into() };
        let open = async {
            let mut answers =
                self.connection.scratch().attach(self.connection.request(request, None)).await?.into_inner();
            let first =
                answers.message().await?.ok_or_else(|| Error::malformed("first message of an attached stream"))?;
            Ok(Attachment { instance_id: first.instance_id, answers })
        };
        match self.connection.timeout() {
            Some(timeout) => tokio::time::timeout(timeout, open).await.unwrap_or_else(|_| Err(Error::late(timeout))),
            None => open.await,
        }
    }

    /// Keeps a value under a key, beginning the instance where it has not been; gives the key as kept: trimmed.
    pub fn put(
        &self,
        instance_id: impl Into<String>,
        key: impl Into<String>,
        value: Value,
    ) -> Call<v1::ScratchPutRequest> {
        let (instance_id, key) = (instance_id.into(), key.into());
        self.call(v1::ScratchPutRequest { instance_id, key, value: Some(value.into()) })
    }

    /// Reads a value; gives `None` where there is no such key.
    pub fn get(&self, instance_id: impl Into<String>, key: impl Into<String>) -> Call<v1::ScratchGetRequest> {
        self.call(v1::ScratchGetRequest { instance_id: instance_id.into(), key: key.into() })
    }

    /// Lists the keys, sorted.
    pub fn list(&self, instance_id: impl Into<String>) -> Call<v1::ScratchListRequest> {
        self.call(v1::ScratchListRequest { instance_id: instance_id.into() })
    }

    /// Removes every key, or [one](Call::key); gives those removed, sorted.
    ///
    /// Is sent once: after a lost answer a second try would say that nothing was removed.
    pub fn clear(&self, instance_id: impl Into<String>) -> Call<v1::ScratchClearRequest> {
        self.call(v1::ScratchClearRequest { instance_id: instance_id.into(), key: None })
    }

    /// Ends an instance; gives the keys that were there, sorted.
    ///
    /// Is sent once, as [`clear`](Scratch::clear) is.
    pub fn close(&self, instance_id: impl Into<String>) -> Call<v1::ScratchCloseRequest> {
        self.call(v1::ScratchCloseRequest { instance_id: instance_id.into() })
    }

    fn call<R: Rpc>(&self, request: R) -> Call<R> {
        Call::new(&self.connection, request)
    }
}

/// An attached instance: dropping this ends it, and so does the end of the program, however it comes.
#[derive(Debug)]
#[must_use = "the instance ends when this is dropped"]
pub struct Attachment {
    instance_id: String,
    answers: Streaming<v1::ScratchAttachResponse>,
}

impl Attachment {
    /// The instance's id.
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// Waits until the server ends the instance, and gives what it said: that it shuts down, or that the connection
    /// was lost.
    pub async fn ended(&mut self) -> Result<()> {
        while self.answers.message().await?.is_some() {}
        Ok(())
    }
}

impl Call<v1::ScratchOpenRequest> {
    /// Ends the instance when it has not been used for so long. Left out: the server's default.
    pub fn idle_ttl(mut self, idle_ttl: Duration) -> Self {
        self.request.idle_ttl = Some(duration(idle_ttl));
        self
    }
}

impl Call<v1::ScratchClearRequest> {
    /// Removes this key alone. A blank one stands for every key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.request.key = Some(key.into());
        self
    }
}

rpcs! {
    ScratchOpenRequest: scratch.open, once, ScratchOpenResponse => Instance, |answer| {
        let expire_time = optional_time(answer.expire_time)?;
        Ok(Instance { id: answer.instance_id, cleared: answer.cleared, expire_time })
    };
    ScratchPutRequest: scratch.put, repeatable, ScratchPutResponse => String, |answer| Ok(answer.key);
    ScratchGetRequest: scratch.get, repeatable, ScratchGetResponse => Option<ScratchItem>, |answer| {
        let value = answer.value.map(Value::try_from).transpose()?;
        Ok(value.map(|value| ScratchItem { key: answer.key, value }))
    };
    ScratchListRequest: scratch.list, repeatable, ScratchListResponse => Vec<String>, |answer| Ok(answer.keys);
    ScratchClearRequest: scratch.clear, once, ScratchClearResponse => Vec<String>, |answer| Ok(answer.cleared);
    ScratchCloseRequest: scratch.close, once, ScratchCloseResponse => Vec<String>, |answer| Ok(answer.cleared);
}
