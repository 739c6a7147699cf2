//! An HTTP/2 server that fails as it is told, and tells what it was asked.

use std::future::poll_fn;

use h2::{RecvStream, server::SendResponse};
use http::{Request, Response, request::Parts};
use statekeep::{Client, ClientBuilder};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use tonic::Status;

use crate::within;

/// What the server does with every call.
#[derive(Clone)]
pub enum Does {
    /// Answers with a status.
    Fail(Status),
    /// Never answers.
    Nothing,
    /// Answers that it takes the call, and from then on neither answers nor reads anything, pings among it.
    FallSilent,
}

/// What the server saw.
pub enum Seen {
    Call(Box<Parts>),
    Cancelled,
}

pub struct Fake {
    pub address: String,
    seen: UnboundedReceiver<Seen>,
    task: JoinHandle<()>,
}

impl Fake {
    pub async fn start(does: Does) -> Self {
        Self::start_tls(does, None).await
    }

    pub async fn start_tls(does: Does, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let (tell, seen) = unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                match &tls {
                    None => drop(tokio::spawn(serve(socket, does.clone(), tell.clone()))),
                    Some(tls) => {
                        if let Ok(socket) = tls.accept(socket).await {
                            drop(tokio::spawn(serve(socket, does.clone(), tell.clone())));
                        }
                    }
                }
            }
        });
        Self { address, seen, task }
    }

    pub fn client(&self) -> ClientBuilder {
        Client::builder().address(&self.address).token("")
    }

    pub async fn seen(&mut self) -> Seen {
        within(self.seen.recv()).await.expect("the server runs")
    }

    pub async fn call(&mut self) -> Parts {
        match self.seen().await {
            Seen::Call(parts) => *parts,
            Seen::Cancelled => panic!("a call was cancelled"),
        }
    }

    /// Whether no call came but those that were looked at.
    pub fn saw_no_more(&mut self) -> bool {
        self.seen.try_recv().is_err()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin, does: Does, tell: UnboundedSender<Seen>) {
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    let mut waiting = Vec::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (parts, body): (_, RecvStream) = Request::into_parts(request);
        drop(tell.send(Seen::Call(Box::new(parts))));
        match &does {
            Does::Fail(status) => {
                drop(respond.send_response(status.clone().into_http::<()>(), true));
            }
            Does::Nothing => waiting.push((tokio::spawn(cancelled(respond, tell.clone())), body)),
            Does::FallSilent => {
                let response = Response::builder().header("content-type", "application/grpc").body(());
                drop(respond.send_response(response.expect("a response"), false));
                // One more turn sends it; a call that never comes leaves the connection unread.
                let turn = std::time::Duration::from_millis(50);
                drop(tokio::time::timeout(turn, connection.accept()).await);
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn cancelled(mut respond: SendResponse<bytes::Bytes>, tell: UnboundedSender<Seen>) {
    if poll_fn(|context| respond.poll_reset(context)).await.is_ok() {
        drop(tell.send(Seen::Cancelled));
    }
}
