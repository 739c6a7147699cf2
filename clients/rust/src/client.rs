//! The client, and how to make one.

use std::time::Duration;

use crate::{
    Memory, Result, Scratch, State,
    connection::{Connection, Settings, unreachable},
};

/// A connection to a Statekeep server.
///
/// Cloning it is cheap, and all clones share the connection, which is made again when it was lost. It closes when the
/// last clone, and the last stream that was opened through one, is dropped. Dropping a call or a stream cancels it.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Connects to `HOST:PORT` or `unix:PATH`, with the token in `STATEKEEP_TOKEN`, where there is one.
    pub async fn connect(address: impl Into<String>) -> Result<Self> {
        Self::builder().address(address).connect().await
    }

    /// Connects to the address in `STATEKEEP_ADDRESS`, or to `127.0.0.1:50051`, with the token in `STATEKEEP_TOKEN`.
    pub async fn from_env() -> Result<Self> {
        Self::builder().connect().await
    }

    /// For a client with other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Versioned values under keys, in scopes that outlive a program.
    pub fn memory(&self) -> Memory {
        Memory { connection: self.connection.clone() }
    }

    /// Values that live as long as one instance of a program.
    pub fn scratch(&self) -> Scratch {
        Scratch { connection: self.connection.clone() }
    }

    /// The history of threads: events in order, snapshots of state, and branches.
    pub fn state(&self) -> State {
        State { connection: self.connection.clone() }
    }
}

/// Settings of a [`Client`].
///
/// ```no_run
/// # async fn run() -> statekeep::Result<()> {
/// use std::time::Duration;
/// let client = statekeep::Client::builder()
///     .address("unix:/run/statekeep.sock")
///     .timeout(Duration::from_secs(5))
///     .keepalive(Duration::from_secs(10))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "connect makes the client"]
pub struct ClientBuilder {
    settings: Settings,
}

impl ClientBuilder {
    /// Where the server listens: `HOST:PORT` or `unix:PATH`. Left out: `STATEKEEP_ADDRESS`, or `127.0.0.1:50051`.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.settings.address = Some(address.into());
        self
    }

    /// Sent with every call as `authorization: Bearer …`; empty: none. Left out: `STATEKEEP_TOKEN`.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.settings.token = Some(token.into());
        self
    }

    /// How long a unary call may take with all its tries; `None`: without an end. Left out: 30 s.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.timeout = timeout.into();
        self
    }

    /// How long making a connection may take. Left out: 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How often to ping while calls are under way, so that a stream that hears nothing for long notices that its
    /// server is gone. Left out: every 30 s. The server takes pings every 10 s.
    pub fn keepalive(mut self, interval: Duration) -> Self {
        self.settings.keepalive = interval;
        self
    }

    /// How long the answer to a ping may take. Left out: 10 s.
    pub fn keepalive_timeout(mut self, timeout: Duration) -> Self {
        self.settings.keepalive_timeout = timeout;
        self
    }

    /// How large an answer may be, in bytes. Left out: gRPC's 4 MiB, which is enough for any record of a server with
    /// default limits.
    pub fn max_message_size(mut self, bytes: usize) -> Self {
        self.settings.max_message_size = Some(bytes);
        self
    }

    /// Connects by TLS. [`ClientTlsConfig::with_native_roots`](crate::tls::ClientTlsConfig::with_native_roots) trusts
    /// what the operating system does.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::tls::ClientTlsConfig) -> Self {
        self.settings.tls = Some(tls);
        self
    }

    /// Connects.
    ///
    /// Fails with [`Code::InvalidArgument`](crate::Code::InvalidArgument) where a setting is wrong, and with
    /// [`Code::Unavailable`](crate::Code::Unavailable) where no server can be reached.
    pub async fn connect(self) -> Result<Client> {
        let channel = self.settings.endpoint()?.connect().await.map_err(unreachable)?;
        Ok(Client { connection: Connection::new(channel, &self.settings)? })
    }

    /// Makes a client that connects with its first call.
    ///
    /// Fails where a setting is wrong. Panics where no Tokio runtime is there.
    pub fn connect_lazy(self) -> Result<Client> {
        let channel = self.settings.endpoint()?.connect_lazy();
        Ok(Client { connection: Connection::new(channel, &self.settings)? })
    }
}
