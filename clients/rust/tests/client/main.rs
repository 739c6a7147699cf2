//! Tests of the client against real servers: Statekeep's own process, and where that cannot be had to fail in a certain
//! way, an HTTP/2 server that does.

mod cancelling;
mod connecting;
mod errors;
mod fake;
mod following;
mod history;
mod readme;
mod relay;
mod server;
mod values;

use std::{future::Future, time::Duration};

/// How long anything here may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Waits for something, for so long at most.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, what).await.expect("it took more than 30 s")
}
