//! A relay between client and server, whose connections can be cut, and which counts what the client sends.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

pub struct Relay {
    pub address: String,
    cuts: watch::Sender<u32>,
    sent: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Relay {
    pub async fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let (cuts, cut) = watch::channel(0);
        let sent = Arc::new(AtomicU64::new(0));
        let connections = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, to.to_owned(), cut, sent.clone(), connections.clone()));
        Self { address, cuts, sent, connections, task }
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        self.cuts.send_modify(|times| *times += 1);
    }

    /// How many connections there were so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many bytes clients have sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn accept(
    listener: TcpListener,
    to: String,
    cut: watch::Receiver<u32>,
    sent: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (mut cut, sent, to) = (cut.clone(), sent.clone(), to.clone());
        cut.mark_unchanged();
        connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            if let Ok(server) = TcpStream::connect(to).await {
                tokio::select! {
                    _ = cut.changed() => {}
                    () = pass(client, server, &sent) => {}
                }
            }
        });
    }
}

async fn pass(client: TcpStream, server: TcpStream, sent: &AtomicU64) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async {
        let mut bytes = [0; 65536];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            sent.fetch_add(count as u64, Ordering::Relaxed);
            if to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        _ = copy(&mut from_server, &mut to_client) => {}
    }
}
