//! Connections with time and size limits that clients cannot extend.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

/// Maximum size of a request's head in bytes. Also limits the read-ahead of a body.
const HEAD: usize = 64 << 10;
/// Maximum number of headers of a request.
const HEADERS: usize = 100;
/// Pause after a failed accept, and the maximum number of pauses in a row. An accept fails, for
/// example, if the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSES: usize = 600;

/// Serves `router` on the connections of `listener` until `shutdown` resolves, then waits for open
/// connections.
pub(crate) async fn listen(
    listener: TcpListener,
    router: Router,
    timeout: Duration,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut failures = 0;
    let graceful = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, _)) => {
                failures = 0;
                serve(stream, router.clone(), timeout, &graceful);
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) if failures == PAUSES => return Err(error),
            Err(error) => {
                failures += 1;
                tracing::warn!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

fn serve(stream: TcpStream, router: Router, timeout: Duration, graceful: &GracefulShutdown) {
    // Sends each chunk at once instead of waiting for a full packet.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let io = TokioIo::new(Impatient { stream, timeout, stalled: None });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(timeout).max_buf_size(HEAD).max_headers(HEADERS);
    let connection = graceful.watch(builder.serve_connection(io, TowerToHyperService::new(router)));
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection failed");
        }
    });
}

/// Returns true if the error concerns one connection that was lost before it was accepted, not the
/// listener.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A stream that fails if the peer reads nothing for `timeout`.
struct Impatient {
    stream: TcpStream,
    timeout: Duration,
    /// Timer that runs while writes are blocked.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    /// Returns the result of a write, or an error if writes have been blocked for too long.
    fn judge<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.timeout;
        let stalled =
            self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + timeout)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
