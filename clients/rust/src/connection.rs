//! One channel to a server, shared by everything that calls through it.

use std::{env, sync::Arc, time::Duration};

use http::uri::Authority;
use tonic::{
    Code, Request,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};

use crate::{
    Error, Result,
    v1::{memory_client::MemoryClient, scratch_client::ScratchClient, state_store_client::StateStoreClient},
};

pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";
/// More than a hundred years cannot be told apart from no timeout, and what gRPC can write of one ends somewhere.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The stubs, and what goes with every call.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    memory: MemoryClient<Channel>,
    scratch: ScratchClient<Channel>,
    state: StateStoreClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
    timeout: Option<Duration>,
}

impl Connection {
    pub(crate) fn new(channel: Channel, settings: &Settings) -> Result<Self> {
        let mut memory = MemoryClient::new(channel.clone());
        let mut scratch = ScratchClient::new(channel.clone());
        let mut state = StateStoreClient::new(channel);
        if let Some(size) = settings.max_message_size {
            memory = memory.max_decoding_message_size(size);
            scratch = scratch.max_decoding_message_size(size);
            state = state.max_decoding_message_size(size);
        }
        let token = settings.token()?;
        Ok(Self(Arc::new(Parts { memory, scratch, state, token, timeout: settings.timeout })))
    }

    pub(crate) fn memory(&self) -> MemoryClient<Channel> {
        self.0.memory.clone()
    }

    pub(crate) fn scratch(&self) -> ScratchClient<Channel> {
        self.0.scratch.clone()
    }

    pub(crate) fn state(&self) -> StateStoreClient<Channel> {
        self.0.state.clone()
    }

    /// The timeout of a unary call that has none of its own.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    /// A message with the token, and with the time that is left for its answer.
    pub(crate) fn request<M>(&self, message: M, time_left: Option<Duration>) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(time_left) = time_left {
            request.set_timeout(time_left.min(LONGEST_TIMEOUT));
        }
        if let Some(token) = &self.0.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }
}

/// How to connect. What is `None` comes from the environment, or is left to gRPC.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) address: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) keepalive: Duration,
    pub(crate) keepalive_timeout: Duration,
    pub(crate) max_message_size: Option<usize>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tonic::transport::ClientTlsConfig>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: None,
            token: None,
            timeout: Some(Duration::from_secs(30)),
            connect_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(10),
            max_message_size: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl Settings {
    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        let address = self.address.clone().or_else(|| from_environment("STATEKEEP_ADDRESS"));
        let endpoint = endpoint_at(address.as_deref().unwrap_or(DEFAULT_ADDRESS), self.scheme())?
            .user_agent(concat!("statekeep-rust/", env!("CARGO_PKG_VERSION")))
            .map_err(refused)?
            .connect_timeout(self.connect_timeout)
            .http2_keep_alive_interval(self.keepalive)
            .keep_alive_timeout(self.keepalive_timeout);
        self.secured(endpoint)
    }

    /// The token as metadata carries it. A file that it was read from ends with a newline, which is no part of it.
    fn token(&self) -> Result<Option<MetadataValue<Ascii>>> {
        let token = self.token.clone().or_else(|| from_environment("STATEKEEP_TOKEN")).unwrap_or_default();
        let token = token.trim();
        if token.is_empty() {
            return Ok(None);
        }
        // Without the token itself in the message: it is a secret.
        let refused = || Error::usage("the token (or STATEKEEP_TOKEN) has a character that is not printable ASCII");
        if !token.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            return Err(refused());
        }
        let mut value = MetadataValue::try_from(format!("Bearer {token}")).map_err(|_| refused())?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    #[cfg(feature = "tls")]
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    #[cfg(not(feature = "tls"))]
    fn scheme(&self) -> &'static str {
        "http"
    }

    #[cfg(feature = "tls")]
    fn secured(&self, endpoint: Endpoint) -> Result<Endpoint> {
        match &self.tls {
            Some(tls) => endpoint.tls_config(tls.clone()).map_err(refused),
            None => Ok(endpoint),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn secured(&self, endpoint: Endpoint) -> Result<Endpoint> {
        Ok(endpoint)
    }
}

fn from_environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn endpoint_at(address: &str, scheme: &str) -> Result<Endpoint> {
    let wrong = || Error::usage(format!("the address must be HOST:PORT or unix:PATH, not {address:?}"));
    if let Some(path) = address.strip_prefix("unix:") {
        return if path.is_empty() { Err(wrong()) } else { Endpoint::from_shared(address.to_owned()).map_err(refused) };
    }
    let authority: Authority = address.parse().map_err(|_| wrong())?;
    if authority.port_u16().is_none() || authority.host().is_empty() || address.contains('@') {
        return Err(wrong());
    }
    Endpoint::from_shared(format!("{scheme}://{authority}")).map_err(refused)
}

fn refused(error: tonic::transport::Error) -> Error {
    Error::usage(format!("the connection's settings are refused: {}", causes(&error))).with_source(error)
}

/// What is wrong where no connection could be made.
pub(crate) fn unreachable(error: tonic::transport::Error) -> Error {
    Error::new(Code::Unavailable, format!("the server could not be reached: {}", causes(&error))).with_source(error)
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
