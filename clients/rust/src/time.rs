//! Times and durations, as messages have them and as Rust does.

use std::time::{Duration, SystemTime};

use crate::{Error, Result};

/// The longest that protobuf has (about 10,000 years): the server refuses it, and says what it takes.
const LONGEST: prost_types::Duration = prost_types::Duration { seconds: 315_576_000_000, nanos: 0 };

pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(LONGEST)
}

pub(crate) fn time(time: Option<prost_types::Timestamp>) -> Result<SystemTime> {
    optional_time(time)?.ok_or_else(|| Error::malformed("time"))
}

pub(crate) fn optional_time(time: Option<prost_types::Timestamp>) -> Result<Option<SystemTime>> {
    time.map(SystemTime::try_from).transpose().map_err(|error| Error::malformed("time").with_source(error))
}
