//! Slow clients and large requests over a socket.

use std::net::SocketAddr;
use std::time::Duration;

use formwork_server::{App, ServerOptions, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::fixture::{says, served, start};

/// Starts a server with this read timeout.
async fn run(read_timeout: Duration) -> SocketAddr {
    run_until(read_timeout, std::future::pending()).await.0
}

/// Starts a server that runs until `shutdown`, and returns its address and task. The shutdown limit
/// is an hour, so only the read timeout can end a connection.
async fn run_until(
    read_timeout: Duration,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> (SocketAddr, JoinHandle<std::io::Result<()>>) {
    let shutdown_limit = Duration::from_secs(3600);
    let options = ServerOptions { read_timeout, shutdown_limit, ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(says("Hi")))], options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(serve(listener, app, shutdown)))
}

/// Sends `sent` and returns the response up to the end of the connection.
async fn exchange(address: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut text = String::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut text));
    read.await.expect("the server gives up").unwrap();
    text
}

#[tokio::test]
async fn closes_a_connection_without_a_head() {
    let address = run(Duration::from_millis(50)).await;
    for begun in ["", "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"] {
        let answer = exchange(address, begun).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
}

#[tokio::test]
async fn times_out_a_missing_body() {
    let address = run(Duration::from_millis(50)).await;
    let begun = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"model\":";
    let answer = exchange(address, begun).await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    assert!(answer.contains("\"code\":\"request_timeout\""), "{answer}");
    assert!(answer.contains("request timeout: the request did not arrive within 0.05 seconds"), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let address = run(Duration::from_secs(20)).await;
    let many = "x: a\r\n".repeat(200);
    let answer = exchange(address, &format!("GET /health HTTP/1.1\r\nhost: x\r\n{many}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    // Data that arrives after the server gave up may reset the connection, so this sends only what
    // the server reads.
    let long = "a".repeat((64 << 10) - "GET /health HTTP/1.1\r\nx: ".len());
    let answer = exchange(address, &format!("GET /health HTTP/1.1\r\nx: {long}")).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn rejects_a_body_declared_too_large_at_once() {
    let address = run(Duration::from_secs(20)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 32];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 413 Payload Too Large\r\n");
}

/// Most clients write the whole request before they read. If the connection ends meanwhile, they
/// report a broken connection instead of the response.
#[tokio::test]
async fn a_client_sending_too_large_a_body_receives_the_error() {
    let address = run(Duration::from_secs(20)).await;
    let length = 4 * ServerOptions::default().body_limit;
    for framing in [
        format!("content-length: {length}\r\n\r\n"),
        format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n"),
    ] {
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{framing}");
        let answer = exchange(address, &(head + &"a".repeat(length) + "\r\n0\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn closes_a_connection_whose_answer_is_not_read() {
    let (shutdown, told) = oneshot::channel::<()>();
    let (address, ended) = run_until(Duration::from_millis(50), async {
        let _ = told.await;
    })
    .await;
    // The response is larger than the system's socket buffers: two strings of a million `\\u0000`.
    let body = format!("{{\"tokens\":[{}0]}}", "0,".repeat((1 << 20) - 1));
    let head = format!("POST /detokenize HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    // The server waits for its last connection, which times out because the client never reads.
    shutdown.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(20), ended)
        .await
        .expect("the server gives up")
        .unwrap()
        .unwrap();
    drop(stream);
}
