use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use formwork_lm::{Batch, LanguageModel, Logits, ModelError, ScriptedModel, SequenceId};
use formwork_server::{App, ServedModel, ServerOptions, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::fixture::{END, app, ask, says, served, start};

/// A server on its own socket. Sending on `shutdown`, or dropping it, shuts the server down.
struct Running {
    address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

async fn run(app: App) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, told) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, app, async {
        let _ = told.await;
    }));
    Running { address, shutdown, served }
}

/// Sends a chat request, and leaves the connection open.
async fn post(address: SocketAddr, fields: &Value) -> TcpStream {
    let body = ask(fields).to_string();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

/// Waits for a future, and fails the test after 20 seconds.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("soon")
}

async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(text) {
        let mut buffer = [0; 1024];
        let count = soon(stream.read(&mut buffer)).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(read).unwrap()
}

/// A model that never ends its output, and reports closed sequences.
struct Endless {
    inner: ScriptedModel,
    closed: UnboundedSender<SequenceId>,
}

fn endless() -> (Endless, Arc<AtomicUsize>, UnboundedReceiver<SequenceId>) {
    let steps = Arc::new(AtomicUsize::new(0));
    let (closed, closings) = unbounded_channel();
    let counted = Arc::clone(&steps);
    let inner = ScriptedModel::new(END + 1, 1 << 30, move |_, row| {
        counted.fetch_add(1, Ordering::SeqCst);
        row[usize::from(b'a')] = 1000.0;
    });
    (Endless { inner, closed }, steps, closings)
}

impl LanguageModel for Endless {
    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }
    fn context_len(&self) -> usize {
        self.inner.context_len()
    }
    fn open(&mut self) -> SequenceId {
        self.inner.open()
    }
    fn close(&mut self, sequence: SequenceId) {
        self.inner.close(sequence);
        let _ = self.closed.send(sequence);
    }
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.inner.truncate(sequence, len)
    }
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        self.inner.forward(batch)
    }
}

#[tokio::test]
async fn a_stream_over_a_socket() {
    let running = run(app(says("Hi"))).await;
    let mut stream = post(running.address, &json!({"stream": true})).await;
    let text = read_until(&mut stream, "data: [DONE]\n\n").await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for header in ["content-type: text/event-stream\r\n", "cache-control: no-cache\r\n"] {
        assert!(text.contains(header), "{text}");
    }
    assert_eq!(text.matches("data: {").count(), 4);
}

#[tokio::test]
async fn a_client_that_goes_away_stops_the_generation() {
    for streamed in [true, false] {
        let (model, steps, mut closings) = endless();
        let running = run(app(model)).await;
        let mut stream = post(running.address, &json!({"stream": streamed})).await;
        if streamed {
            read_until(&mut stream, "\"content\":\"a\"").await;
        } else {
            soon(async {
                while steps.load(Ordering::SeqCst) == 0 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        assert!(closings.try_recv().is_err(), "closed early");
        drop(stream);
        assert!(soon(closings.recv()).await.is_some());
        let after = steps.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        assert_eq!(steps.load(Ordering::SeqCst), after);
    }
}

#[tokio::test]
async fn shutdown_lets_running_requests_finish() {
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let model = ScriptedModel::new(END + 1, 1000, move |tokens, row| {
        let _ = gate.recv();
        row[if tokens.ends_with(b"ok".map(|b| formwork_vocab::TokenId(b.into())).as_slice()) {
            END
        } else if tokens.last().is_some_and(|token| token.0 == u32::from(b'o')) {
            usize::from(b'k')
        } else {
            usize::from(b'o')
        }] = 1000.0;
    });
    let running = run(app(model)).await;
    let mut stream = post(running.address, &json!({"stream": true})).await;
    read_until(&mut stream, "assistant").await;
    running.shutdown.send(()).unwrap();
    drop(go_on);
    let rest = read_until(&mut stream, "data: [DONE]").await;
    assert!(rest.contains("\"content\":\"k\""), "{rest}");
    drop(stream);
    soon(running.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_has_a_time_limit() {
    let (model, _, _closings) = endless();
    let options = ServerOptions { shutdown_limit: Duration::ZERO, ..ServerOptions::default() };
    let model = ServedModel { ..served("m", start(model)) };
    let running = run(App::new(vec![model], options).unwrap()).await;
    let mut stream = post(running.address, &json!({"stream": true})).await;
    read_until(&mut stream, "\"content\":\"a\"").await;
    running.shutdown.send(()).unwrap();
    soon(running.served).await.unwrap().unwrap();
}
