//! Values, kept byte for byte.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result, v1};

/// What is kept under a key, in an event or in a checkpoint, byte for byte as it was sent.
///
/// JSON is kept as text, so that no number loses a digit on its way. What a reader makes of it is the reader's choice:
/// [`Value::parse`] reads it into any type that serde knows. A type with the right integers, or a
/// `Box<serde_json::value::RawValue>`, keeps every digit. A `serde_json::Value` rounds what is beyond 64 bits, unless
/// the feature `arbitrary_precision` of this crate is on.
///
/// ```
/// use statekeep::Value;
/// let value = Value::json(&9_007_199_254_740_993_u64)?;
/// assert_eq!(value.as_json(), Some("9007199254740993"));
/// assert_eq!(value.parse::<u64>()?, 9_007_199_254_740_993);
/// # Ok::<(), statekeep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// What it holds.
    pub content: Content,
    /// The media type; empty where the writer gave none, and then it is that of the content's kind.
    pub content_type: String,
}

/// What a [`Value`] holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// One JSON text (RFC 8259).
    Json(String),
    /// Plain text.
    Text(String),
    /// Anything else.
    Data(Bytes),
}

impl Value {
    /// What serde makes of something, as JSON.
    ///
    /// Fails where it has no JSON form, such as a map whose keys are no strings. As serde_json has it, a NaN or an
    /// infinity becomes `null`.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        serde_json::to_string(value)
            .map(Self::json_text)
            .map_err(|error| Error::usage(format!("the value has no JSON form: {error}")).with_source(error))
    }

    /// A JSON text, which is kept as it stands. The server refuses one that does not parse.
    pub fn json_text(text: impl Into<String>) -> Self {
        Self::of(Content::Json(text.into()))
    }

    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Content::Text(text.into()))
    }

    /// Bytes.
    pub fn data(data: impl Into<Bytes>) -> Self {
        Self::of(Content::Data(data.into()))
    }

    /// The same with a media type, such as `image/png`.
    pub fn with_content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// The JSON text, where it is one.
    pub fn as_json(&self) -> Option<&str> {
        match &self.content {
            Content::Json(text) => Some(text),
            _ => None,
        }
    }

    /// The plain text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes, where it is neither JSON nor text.
    pub fn as_data(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Data(data) => Some(data),
            _ => None,
        }
    }

    /// Reads the JSON text.
    ///
    /// Fails with [`Code::InvalidArgument`](crate::Code::InvalidArgument) where it is no JSON, or not that of a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        let text = self.as_json().ok_or_else(|| Error::usage("the value is no JSON: it is text or data"))?;
        serde_json::from_str(text)
            .map_err(|error| Error::usage(format!("the JSON is not what was expected: {error}")).with_source(error))
    }

    fn of(content: Content) -> Self {
        Self { content, content_type: String::new() }
    }
}

impl From<Value> for v1::Value {
    fn from(value: Value) -> Self {
        let kind = match value.content {
            Content::Json(text) => v1::value::Kind::Json(text),
            Content::Text(text) => v1::value::Kind::Text(text),
            Content::Data(data) => v1::value::Kind::Data(data),
        };
        Self { kind: Some(kind), content_type: value.content_type }
    }
}

impl TryFrom<v1::Value> for Value {
    type Error = Error;

    fn try_from(value: v1::Value) -> Result<Self> {
        let content = match value.kind.ok_or_else(|| Error::malformed("kind of a value"))? {
            v1::value::Kind::Json(text) => Content::Json(text),
            v1::value::Kind::Text(text) => Content::Text(text),
            v1::value::Kind::Data(data) => Content::Data(data),
        };
        Ok(Self { content, content_type: value.content_type })
    }
}
