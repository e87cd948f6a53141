//! Connections, each with limits of time and size that no client can stretch.

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

/// The most bytes of a request's head, and of what is read ahead of a body.
const HEAD: usize = 64 << 10;
/// The most headers of a request.
const HEADERS: usize = 100;
/// How long to wait when the system has no more connections to give, and how often in a row.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSES: usize = 600;

/// Serves `router` on connections of `listener` until `shutdown`; then until the last of them is done.
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
                tracing::warn!(%error, "cannot accept");
                sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

fn serve(stream: TcpStream, router: Router, timeout: Duration, graceful: &GracefulShutdown) {
    // A chunk goes out when it is written, not when a packet is full.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let io = TokioIo::new(Impatient { stream, timeout, stalled: None });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(timeout).max_buf_size(HEAD).max_headers(HEADERS);
    let connection = graceful.watch(builder.serve_connection(io, TowerToHyperService::new(router)));
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection");
        }
    });
}

/// Whether one connection went away before it was taken, rather than the listener failing.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A stream that fails when the other side takes nothing for so long.
struct Impatient {
    stream: TcpStream,
    timeout: Duration,
    /// Since the other side takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    /// What a write came to, unless it has been pending for too long.
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
