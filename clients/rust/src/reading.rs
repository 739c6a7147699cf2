//! Streams that go on where they were after a lost connection, without a gap and without a repeat.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use tokio::time::{Instant, Sleep, sleep};
use tonic::{Response, Status, Streaming};

use crate::{Error, Result, call::pause, connection::Connection};

/// A stream that is being opened.
pub(crate) type Opening<M> = Pin<Box<dyn Future<Output = Result<Response<Streaming<M>>, Status>> + Send>>;

/// Where a read stands: what it has handed out, and so how it goes on from there.
pub trait Place: Unpin + Send {
    /// What the stream sends.
    type Message: Send + 'static;
    /// What the reader gets.
    type Item;
    /// Begins the stream that goes on from here; `None` where there is nothing more to ask for.
    fn open(&self, connection: &Connection, time_left: Option<Duration>) -> Option<Opening<Self::Message>>;
    /// Takes a message in.
    fn take(&mut self, message: Self::Message) -> Result<()>;
    /// Hands out an item of what was taken in, and moves on with it.
    fn hand_out(&mut self) -> Option<Self::Item>;
    /// Everything up to here was handed out.
    fn revision(&self) -> i64;
    /// Whether all that was there when the read began was handed out.
    fn caught_up(&self) -> bool;
    /// Whether the read goes on when it has caught up.
    fn follows(&self) -> bool;
}

/// A read, as a [`Stream`] of records, that resumes where it was when its connection was lost.
///
/// Its methods set what may be left out, and are for before the first record. Dropping it cancels its call. After an
/// error it has ended; its [`revision`](Reading::revision) still tells where another read can go on.
///
/// A read that ends is tried five times without getting any further. One that follows goes on trying once it was
/// answered, without an end or [as long as you say](Reading::retry_for).
#[must_use = "a stream begins when it is read"]
pub struct Reading<P: Place> {
    pub(crate) connection: Connection,
    pub(crate) place: P,
    patience: Patience,
    timeout: Option<Duration>,
    deadline: Option<Pin<Box<Sleep>>>,
    state: Stage<P::Message>,
}

enum Stage<M> {
    Closed,
    Opening(Opening<M>),
    Open(Box<Streaming<M>>),
    Pausing(Pin<Box<Sleep>>),
    Ended,
}

impl<P: Place> Reading<P> {
    pub(crate) fn new(connection: &Connection, place: P) -> Self {
        Self {
            connection: connection.clone(),
            place,
            patience: Patience::default(),
            timeout: None,
            deadline: None,
            state: Stage::Closed,
        }
    }

    /// The same read, before it began, of other items.
    pub(crate) fn map_place<Q: Place>(self, change: impl FnOnce(P) -> Q) -> Reading<Q> {
        let reading = Reading::new(&self.connection, change(self.place));
        Reading { patience: self.patience, timeout: self.timeout, ..reading }
    }

    /// How long the whole read may take. Left out: without an end.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// For how long a read that follows tries to get a lost connection back. Left out: without an end.
    pub fn retry_for(mut self, patience: Duration) -> Self {
        self.patience.retry_for = Some(patience);
        self
    }

    /// The revision up to which everything was handed out: keep it, and a later read can go on after it.
    pub fn revision(&self) -> i64 {
        self.place.revision()
    }

    /// Whether all that was there when the read began was handed out. Never true of a key's versions, which end instead.
    pub fn caught_up(&self) -> bool {
        self.place.caught_up()
    }

    /// Returns once the server has answered: whatever is written from then on, a read that follows sees.
    pub async fn opened(&mut self) -> Result<()> {
        poll_fn(|context| self.poll_begun(context)).await
    }

    /// The next record; `None` after the last.
    pub async fn try_next(&mut self) -> Result<Option<P::Item>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }

    /// All that are left. Never returns where the read follows.
    pub async fn collect_all(mut self) -> Result<Vec<P::Item>> {
        let mut items = Vec::new();
        while let Some(item) = self.try_next().await? {
            items.push(item);
        }
        Ok(items)
    }

    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while !self.patience.began && !matches!(self.state, Stage::Ended) {
            if let Err(error) = ready!(self.poll_step(context)) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes one step nearer to the next message.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(timeout) = self.timeout
            && self.is_late(timeout, context)
        {
            return Poll::Ready(self.end(Error::late(timeout)));
        }
        let outcome = match &mut self.state {
            Stage::Ended => Ok(()),
            Stage::Closed => {
                self.open();
                Ok(())
            }
            Stage::Pausing(pause) => {
                ready!(pause.as_mut().poll(context));
                self.state = Stage::Closed;
                Ok(())
            }
            Stage::Opening(opening) => match ready!(opening.as_mut().poll(context)) {
                Ok(response) => {
                    self.state = Stage::Open(Box::new(response.into_inner()));
                    Ok(())
                }
                Err(status) => self.lose(status),
            },
            Stage::Open(messages) => match ready!(Pin::new(messages).poll_next(context)) {
                Some(Ok(message)) => self.take(message),
                Some(Err(status)) => self.lose(status),
                None => {
                    self.state = Stage::Ended;
                    Ok(())
                }
            },
        };
        Poll::Ready(outcome)
    }

    fn open(&mut self) {
        let deadline = self.deadline.as_ref().map(|deadline| deadline.deadline());
        let time_left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.state = match self.place.open(&self.connection, time_left) {
            Some(opening) => Stage::Opening(opening),
            None => Stage::Ended,
        };
    }

    fn take(&mut self, message: P::Message) -> Result<()> {
        self.patience.progress();
        self.place.take(message).or_else(|error| self.end(error))
    }

    /// Waits before the next try, or ends where there is to be none.
    fn lose(&mut self, status: Status) -> Result<()> {
        let error = Error::from(status);
        match self.patience.pause(&error, self.place.follows()) {
            Some(pause) => {
                self.state = Stage::Pausing(Box::pin(sleep(pause)));
                Ok(())
            }
            None => self.end(error),
        }
    }

    fn end(&mut self, error: Error) -> Result<()> {
        self.state = Stage::Ended;
        Err(error)
    }

    /// Whether the timeout is over. It begins with the first step.
    fn is_late(&mut self, timeout: Duration, context: &mut Context<'_>) -> bool {
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        deadline.as_mut().poll(context).is_ready() && !matches!(self.state, Stage::Ended)
    }
}

impl<P: Place> Stream for Reading<P> {
    type Item = Result<P::Item>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.place.hand_out() {
                return Poll::Ready(Some(Ok(item)));
            }
            if matches!(self.state, Stage::Ended) {
                return Poll::Ready(None);
            }
            if let Err(error) = ready!(self.poll_step(context)) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl<P: Place> fmt::Debug for Reading<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("revision", &self.revision())
            .field("caught_up", &self.caught_up())
            .finish_non_exhaustive()
    }
}

/// How long to go on trying while nothing comes.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    retry_for: Option<Duration>,
    began: bool,
    tries: u32,
    lost_at: Option<Instant>,
}

impl Patience {
    /// How often a read that does not follow, or never had a message, tries without getting any further.
    const TRIES: u32 = 5;
    const FIRST_PAUSE: Duration = Duration::from_millis(50);
    const LONGEST_PAUSE: Duration = Duration::from_millis(2500);

    /// A message came.
    fn progress(&mut self) {
        self.began = true;
        self.tries = 0;
        self.lost_at = None;
    }

    /// How long to wait before the next try; `None` where there is to be none.
    fn pause(&mut self, error: &Error, follows: bool) -> Option<Duration> {
        let lost_at = *self.lost_at.get_or_insert_with(Instant::now);
        let already = self.tries;
        self.tries += 1;
        let over = if follows && self.began {
            self.retry_for.is_some_and(|patience| lost_at.elapsed() >= patience)
        } else {
            self.tries >= Self::TRIES
        };
        (error.is_unavailable() && !over).then(|| pause(already, Self::FIRST_PAUSE, Self::LONGEST_PAUSE, error))
    }
}
