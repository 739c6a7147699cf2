//! What can go wrong: one error, with the reason that the server gives.

use std::{collections::HashMap, error, fmt, time::Duration};

use tonic::{Code, Status, TimeoutExpired};
use tonic_types::StatusExt;

/// What a call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

const DOMAIN: &str = "statekeep";

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The server's stable name for what went wrong.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
            /// A reason that this version of the client does not know.
            Other(String),
        }

        impl Reason {
            /// The name as the contract has it, such as `VERSION_MISMATCH`.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for Reason {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    _ => Self::Other(text.to_owned()),
                }
            }
        }
    };
}

reasons! {
    /// A field is malformed or missing: see [`Error::fields`].
    InvalidField = "INVALID_FIELD",
    /// The record is over the server's limit: `size` and `max` in the metadata, in bytes.
    ValueTooLarge = "VALUE_TOO_LARGE",
    /// The request id was used before, for another request.
    RequestIdReused = "REQUEST_ID_REUSED",
    /// The key's version is not the expected one: `expected` and `actual` in the metadata.
    VersionMismatch = "VERSION_MISMATCH",
    /// The branch's last sequence is not the expected one: `expected` and `actual` in the metadata.
    SequenceMismatch = "SEQUENCE_MISMATCH",
    /// The branch holds an event of this id that says something else.
    EventExists = "EVENT_EXISTS",
    /// The thread has a branch of this name.
    BranchExists = "BRANCH_EXISTS",
    /// The branch holds no such event.
    EventNotFound = "EVENT_NOT_FOUND",
    /// There is no such thread.
    ThreadNotFound = "THREAD_NOT_FOUND",
    /// The thread has no such branch.
    BranchNotFound = "BRANCH_NOT_FOUND",
    /// What followed the cursor was removed: `oldest` in the metadata is where a read can begin.
    RevisionGone = "REVISION_GONE",
    /// The cursor was never reached: `newest` in the metadata is the last revision there is.
    RevisionAhead = "REVISION_AHEAD",
    /// The branch does not fit one message: read it with `stream_history`.
    HistoryTooLarge = "HISTORY_TOO_LARGE",
    /// The server's limit named in the metadata (`limit`, `max`) was reached.
    LimitReached = "LIMIT_REACHED",
    /// The server lets no stream follow for longer. A read is resumed by itself.
    StreamAgeReached = "STREAM_AGE_REACHED",
    /// The server is going away.
    ShuttingDown = "SHUTTING_DOWN",
    /// The server's store does not answer.
    StoreUnavailable = "STORE_UNAVAILABLE",
    /// The scratch instance is attached by someone else.
    InstanceAttached = "INSTANCE_ATTACHED",
    /// The token is missing or wrong.
    Unauthenticated = "UNAUTHENTICATED",
    /// The token does not allow the request.
    PermissionDenied = "PERMISSION_DENIED",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The field's path in the request, such as `event.type`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// Why a call failed.
///
/// ```
/// # fn decide(error: statekeep::Error) {
/// use statekeep::{Code, Reason};
/// match (error.reason(), error.code()) {
///     (Some(Reason::VersionMismatch), _) => println!("someone was faster: {:?}", error.metadata().get("actual")),
///     (_, Code::Unavailable) => println!("no server answers; try again in {:?}", error.retry_delay()),
///     _ => println!("{error}"),
/// }
/// # }
/// ```
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    reason: Option<Reason>,
    message: String,
    metadata: HashMap<String, String>,
    fields: Vec<FieldViolation>,
    retry_delay: Option<Duration>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// The gRPC status code. Where this client itself refuses an argument, [`Code::InvalidArgument`]; where no answer
    /// came in time, [`Code::DeadlineExceeded`], and a write may have happened all the same.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The server's reason; `None` where the error is gRPC's, or this client's own.
    pub fn reason(&self) -> Option<&Reason> {
        self.0.reason.as_ref()
    }

    /// What happened, in words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The variable parts of the message, by name.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.0.metadata
    }

    /// The fields at fault.
    pub fn fields(&self) -> &[FieldViolation] {
        &self.0.fields
    }

    /// After how long the server suggests to try again.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.0.retry_delay
    }

    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            reason: None,
            message: message.into(),
            metadata: HashMap::new(),
            fields: Vec::new(),
            retry_delay: None,
            source: None,
        }))
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn late(timeout: Duration) -> Self {
        Self::new(Code::DeadlineExceeded, format!("not done within the timeout of {timeout:?}"))
    }

    /// For an answer that lacks what the contract has in it.
    pub(crate) fn malformed(what: &str) -> Self {
        Self::new(Code::Internal, format!("the server's answer has no valid {what}"))
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn is_unavailable(&self) -> bool {
        self.code() == Code::Unavailable
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let mut error = Self::new(code_of(&status), message_of(&status));
        if let Some(info) = details.error_info() {
            error.0.reason = (info.domain == DOMAIN).then(|| Reason::from(info.reason.as_str()));
            error.0.metadata = info.metadata.clone();
        }
        let violations = details.bad_request().into_iter().flat_map(|request| &request.field_violations);
        error.0.fields = violations
            .map(|one| FieldViolation { field: one.field.clone(), description: one.description.clone() })
            .collect();
        error.0.retry_delay = details.retry_info().and_then(|info| info.retry_delay);
        error.with_source(status)
    }
}

/// The status code, also where tonic names a lost connection otherwise than gRPC does.
///
/// A status that the server sent has no source. One that tonic made of a failed transport has, and is UNKNOWN,
/// INTERNAL or CANCELLED depending on where the connection broke: for all of them gRPC's code is UNAVAILABLE.
fn code_of(status: &Status) -> Code {
    let mut source = error::Error::source(status);
    if source.is_none() {
        return status.code();
    }
    while let Some(cause) = source {
        if cause.is::<TimeoutExpired>() {
            return Code::DeadlineExceeded;
        }
        source = cause.source();
    }
    match status.code() {
        Code::Unknown | Code::Internal | Code::Cancelled => Code::Unavailable,
        code => code,
    }
}

/// The message, with its causes where the transport failed: "transport error" alone says nothing.
fn message_of(status: &Status) -> String {
    let mut message = status.message().to_owned();
    let mut source = error::Error::source(status);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !message.contains(&text) {
            message = if message.is_empty() { text } else { format!("{message}: {text}") };
        }
        source = cause.source();
    }
    message
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { code, reason, message, metadata, fields, retry_delay, source: _ } = &*self.0;
        f.debug_struct("Error")
            .field("code", code)
            .field("reason", reason)
            .field("message", message)
            .field("metadata", metadata)
            .field("fields", fields)
            .field("retry_delay", retry_delay)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.reason {
            Some(reason) => write!(f, "{reason}: {}", self.0.message),
            None => write!(f, "{:?}: {}", self.0.code, self.0.message),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
