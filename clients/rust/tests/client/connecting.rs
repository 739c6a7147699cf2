//! Addresses, tokens and TLS.

use std::sync::Arc;

use statekeep::{
    Client, Code, Value,
    tls::{Certificate, ClientTlsConfig},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};
use tonic::Status;

use crate::{
    fake::{Does, Fake},
    server::Server,
};

#[tokio::test]
async fn a_server_on_a_unix_socket_is_reached_by_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = format!("unix:{}", folder.path().join("socket").display());
    let server = Server::start_with(&address, &[]).await;
    let memory = server.client().await.memory();
    assert_eq!(memory.set("app", "k", Value::text("x")).await.expect("it is written").version, 1);
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_with_what_would_be_right() {
    for address in ["", "localhost", "http://localhost:1", "unix:", "a b:1", "user@host:1", ":50051", "host:65536"] {
        let error = Client::connect(address).await.expect_err("it is no address");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.message(), format!("the address must be HOST:PORT or unix:PATH, not {address:?}"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let error = Client::connect("127.0.0.1:1").await.expect_err("nobody listens");
    assert_eq!((error.code(), error.reason()), (Code::Unavailable, None));
    assert!(error.message().contains("refused"), "{error}");

    let lazy = Client::builder().address("127.0.0.1:1").connect_lazy().expect("the settings are right");
    let error = lazy.memory().get("app", "k").await.expect_err("nobody listens");
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

#[tokio::test]
async fn the_token_goes_with_every_call_and_stream_without_the_blanks_around_it() {
    let mut fake = Fake::start(Does::Fail(Status::not_found("nothing"))).await;
    let client = fake.client().token(" secret\n").connect().await.expect("it takes connections");
    client.memory().get("app", "k").await.expect_err("it fails");
    client.state().stream_history("t").try_next().await.expect_err("it fails");
    client.scratch().attach("run").await.expect_err("it fails");
    for _ in 0..3 {
        assert_eq!(fake.call().await.headers["authorization"], "Bearer secret");
    }
    let client = fake.client().connect().await.expect("it takes connections");
    client.memory().get("app", "k").await.expect_err("it fails");
    assert!(!fake.call().await.headers.contains_key("authorization"));
    assert!(!format!("{:?}", fake.client().token("secret").connect().await).contains("secret"));
}

#[tokio::test]
async fn a_token_that_metadata_cannot_carry_is_refused_without_being_shown() {
    let fake = Fake::start(Does::Nothing).await;
    let error = fake.client().token("sécret").connect().await.expect_err("it is not ASCII");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(!error.message().contains("cret"), "{error}");
}

#[tokio::test]
async fn tls_reaches_a_server_that_the_client_trusts_and_no_other() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let mut fake = Fake::start_tls(Does::Fail(Status::not_found("by TLS")), Some(acceptor(&made))).await;
    let trusting =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(made.cert.pem())).domain_name("localhost");
    let client = fake.client().tls(trusting).connect().await.expect("the certificate is trusted");
    let error = client.memory().get("app", "k").await.expect_err("it fails");
    assert_eq!((error.code(), error.message()), (Code::NotFound, "by TLS"));
    assert_eq!(fake.call().await.uri.scheme_str(), Some("https"));

    let doubting = ClientTlsConfig::new().with_native_roots().domain_name("localhost");
    let error = fake.client().tls(doubting).connect().await.expect_err("nobody vouches for the certificate");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("certificate"), "{error}");
}

fn acceptor(made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> TlsAcceptor {
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("certificate and key belong together");
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}
