//! Unary calls: options first, and then `.await`.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Request, Response, Status};

use crate::{Error, Result, connection::Connection};

/// How often a call is tried that may be sent twice.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A unary call: what is asked, and how it is answered.
pub trait Rpc: Clone + Send + Sync + 'static {
    /// The message that answers it.
    type Answer: Send;
    /// What the caller gets of it.
    type Output: Send;
    /// Whether sending it twice does no harm.
    const REPEATABLE: bool;
    /// Sends it once.
    fn send(
        connection: &Connection,
        request: Request<Self>,
    ) -> impl Future<Output = Result<Response<Self::Answer>, Status>> + Send;
    /// Reads the answer.
    fn read(answer: Self::Answer) -> Result<Self::Output>;
}

/// Says of a request which method of which stub it goes to, and what is read of the answer.
///
/// `once` stands for calls whose answers say what they removed: repeated after a lost answer they would say "nothing".
/// Every other call either reads, or carries an id by which the server knows it again.
macro_rules! rpcs {
    ($($request:ident: $stub:ident.$method:ident, $tries:ident, $answer:ident => $output:ty, $read:expr;)*) => {$(
        impl crate::call::Rpc for crate::v1::$request {
            type Answer = crate::v1::$answer;
            type Output = $output;
            const REPEATABLE: bool = crate::call::$tries;

            async fn send(
                connection: &crate::connection::Connection,
                request: tonic::Request<Self>,
            ) -> std::result::Result<tonic::Response<Self::Answer>, tonic::Status> {
                connection.$stub().$method(request).await
            }

            fn read(answer: Self::Answer) -> crate::Result<Self::Output> {
                let read: fn(Self::Answer) -> crate::Result<Self::Output> = $read;
                read(answer)
            }
        }
    )*};
}
pub(crate) use rpcs;

/// For [`rpcs`]: may be sent twice.
#[expect(non_upper_case_globals, reason = "reads as a word in the tables of calls")]
pub(crate) const repeatable: bool = true;
/// For [`rpcs`]: is sent once.
#[expect(non_upper_case_globals, reason = "reads as a word in the tables of calls")]
pub(crate) const once: bool = false;

/// A unary call that is not sent yet: `.await` sends it.
///
/// Its methods set what may be left out. What it gives is told by the method that made it, and so is what can go wrong;
/// any call may also fail for what gRPC itself says. Dropping the future cancels the call.
///
/// Where the connection is lost, or the server says that it is UNAVAILABLE, the call is sent again up to three times,
/// for as long as its timeout lasts; apart from those calls whose answers say what they removed, which are sent once.
#[must_use = "a call is sent when it is awaited"]
pub struct Call<R: Rpc> {
    connection: Connection,
    pub(crate) request: R,
    timeout: Option<Duration>,
}

impl<R: Rpc> Call<R> {
    pub(crate) fn new(connection: &Connection, request: R) -> Self {
        Self { timeout: connection.timeout(), connection: connection.clone(), request }
    }

    /// How long the call may take with all its tries; `None`: without an end. Left out: the client's.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    async fn answer(self) -> Result<R::Output> {
        let Some(timeout) = self.timeout else { return self.tried(None).await };
        // A timeout that no clock reaches is none.
        let Some(deadline) = Instant::now().checked_add(timeout) else { return self.tried(None).await };
        timeout_at(deadline, self.tried(Some(deadline))).await.unwrap_or_else(|_| Err(Error::late(timeout)))
    }

    async fn tried(self, deadline: Option<Instant>) -> Result<R::Output> {
        let tries = if R::REPEATABLE { TRIES } else { 1 };
        for already in 0..tries - 1 {
            match self.sent(self.request.clone(), deadline).await {
                Err(error) if error.is_unavailable() => sleep(pause(already, FIRST_PAUSE, LONGEST_PAUSE, &error)).await,
                outcome => return outcome,
            }
        }
        let Self { connection, request, .. } = self;
        send(&connection, request, deadline).await
    }

    async fn sent(&self, request: R, deadline: Option<Instant>) -> Result<R::Output> {
        send(&self.connection, request, deadline).await
    }
}

async fn send<R: Rpc>(connection: &Connection, request: R, deadline: Option<Instant>) -> Result<R::Output> {
    let time_left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let answer = R::send(connection, connection.request(request, time_left)).await?;
    R::read(answer.into_inner())
}

/// How long to wait before the next try: what the server suggests, or twice as long as the last time.
///
/// Up to twice that again, at random, or everyone who lost the same server would come back at once.
pub(crate) fn pause(already: u32, first: Duration, longest: Duration, error: &Error) -> Duration {
    let own = first.saturating_mul(2_u32.saturating_pow(already)).min(longest);
    error.retry_delay().unwrap_or(own).mul_f64(1.0 + fastrand::f64())
}

impl<R: Rpc> IntoFuture for Call<R> {
    type Output = Result<R::Output>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.answer())
    }
}

impl<R: Rpc> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
