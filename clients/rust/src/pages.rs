//! Lists, page by page.

use std::{
    collections::VecDeque,
    fmt,
    future::{IntoFuture, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;

use crate::{
    Result,
    call::{Call, Rpc},
    connection::Connection,
};

/// A call that answers with one page: its items, and the token of the next page.
pub trait Paged: Rpc<Output = (Vec<Self::Item>, String)> + Unpin {
    /// What the list is of.
    type Item: Send + Unpin;
    /// Asks for the page of a token.
    fn at(&mut self, page_token: String);
    /// Sets how many items a page has.
    fn of_size(&mut self, page_size: i32);
}

/// Says of requests that they are of lists.
macro_rules! paged {
    ($($request:ident of $item:ty;)*) => {$(
        impl crate::pages::Paged for crate::v1::$request {
            type Item = $item;

            fn at(&mut self, page_token: String) {
                self.page_token = page_token;
            }

            fn of_size(&mut self, page_size: i32) {
                self.page_size = page_size;
            }
        }
    )*};
}
pub(crate) use paged;

/// A list, as a [`Stream`]: each page is fetched when the one before it is used up.
///
/// Each item comes exactly once, also while others write. Its methods set what may be left out, and are for before the
/// first item. After an error it has ended.
#[must_use = "a list is fetched when it is read"]
pub struct Pages<Q: Paged> {
    connection: Connection,
    pub(crate) request: Q,
    timeout: Option<Duration>,
    items: VecDeque<Q::Item>,
    next: Next<Q>,
}

enum Next<Q: Paged> {
    Page(String),
    Fetching(<Call<Q> as IntoFuture>::IntoFuture),
    Nothing,
}

impl<Q: Paged> Pages<Q> {
    pub(crate) fn new(connection: &Connection, request: Q) -> Self {
        Self {
            timeout: connection.timeout(),
            connection: connection.clone(),
            request,
            items: VecDeque::new(),
            next: Next::Page(String::new()),
        }
    }

    /// How many items to fetch at once. Left out, or 0: the server's default.
    pub fn page_size(mut self, items: i32) -> Self {
        self.request.of_size(items);
        self
    }

    /// How long each page may take; `None`: without an end. Left out: the client's.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// The next item; `None` after the last.
    pub async fn try_next(&mut self) -> Result<Option<Q::Item>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }

    /// All that are left.
    pub async fn collect_all(mut self) -> Result<Vec<Q::Item>> {
        let mut items = Vec::new();
        while let Some(item) = self.try_next().await? {
            items.push(item);
        }
        Ok(items)
    }

    fn fetch(&self, page_token: String) -> Next<Q> {
        let mut request = self.request.clone();
        request.at(page_token);
        Next::Fetching(Call::new(&self.connection, request).timeout(self.timeout).into_future())
    }
}

impl<Q: Paged> Stream for Pages<Q> {
    type Item = Result<Q::Item>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            match &mut self.next {
                Next::Nothing => return Poll::Ready(None),
                Next::Page(token) => {
                    let token = std::mem::take(token);
                    self.next = self.fetch(token);
                }
                Next::Fetching(call) => {
                    let outcome = ready!(call.as_mut().poll(context));
                    self.next = Next::Nothing;
                    let (items, token) = match outcome {
                        Ok(page) => page,
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    };
                    self.items = items.into();
                    if !token.is_empty() {
                        self.next = Next::Page(token);
                    }
                }
            }
        }
    }
}

impl<Q: Paged> fmt::Debug for Pages<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("fetched", &self.items.len()).finish_non_exhaustive()
    }
}
