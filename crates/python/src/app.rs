//! The class `App`: the server in this process, without a socket.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use formwork_server::{App, router};
use http_body_util::BodyExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::error;

/// Time between two checks for Ctrl-C.
const CHECK: Duration = Duration::from_millis(50);

/// Number of pieces of a stream that may wait to be read.
const WAITING: usize = 64;

/// The server in this process, without a socket.
///
/// options: the options of `formwork serve`.
#[pyclass(name = "App", module = "formwork._native", frozen)]
pub(crate) struct PyApp {
    router: Router,
    runtime: Mutex<Option<Runtime>>,
}

#[pymethods]
impl PyApp {
    #[new]
    fn new(py: Python<'_>, options: Vec<String>) -> PyResult<Self> {
        let app = py.detach(|| formwork_cli::app(options));
        let app = app.map_err(|error| error::option(py, format!("{error:#}")))?;
        Self::start(py, app)
    }

    /// Creates a server without a model, for the routes that need none.
    #[staticmethod]
    fn without_model(py: Python<'_>) -> PyResult<Self> {
        Self::start(py, without_model()?)
    }

    /// Sends a request. Returns the status and the body.
    #[pyo3(signature = (method, path, body = None))]
    fn request<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> PyResult<(u16, Bound<'py, PyBytes>)> {
        let stream = self.stream(method, path, body)?;
        let mut whole = Vec::new();
        let mut status = 0;
        while let Some(piece) = stream.next_piece(py)? {
            match piece {
                Piece::Status(code) => status = code,
                Piece::Body(bytes) => whole.extend_from_slice(&bytes),
            }
        }
        Ok((status, PyBytes::new(py, &whole)))
    }

    /// Sends a request. Returns an iterator over the status, and then the pieces of the body.
    #[pyo3(signature = (method, path, body = None))]
    fn stream(&self, method: &str, path: &str, body: Option<Vec<u8>>) -> PyResult<PyStream> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.unwrap_or_default()))
            .map_err(|error| {
                Python::attach(|py| error::option(py, format!("`{path}`: {error}; a path starts with `/`")))
            })?;
        let (sender, receiver) = sync_channel(WAITING);
        let runtime = self.runtime.lock().map_err(|_| closed())?;
        let task = runtime.as_ref().ok_or_else(closed)?.spawn(answer(self.router.clone(), request, sender));
        Ok(PyStream { receiver: Mutex::new(receiver), task })
    }

    /// Ends all requests, and frees the models.
    fn close(&self, py: Python<'_>) {
        let runtime = self.runtime.lock().ok().and_then(|mut runtime| runtime.take());
        py.detach(|| runtime.map(Runtime::shutdown_background));
    }
}

impl PyApp {
    fn start(py: Python<'_>, app: App) -> PyResult<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (sender, receiver) = sync_channel(1);
        let loading = app.clone();
        runtime.spawn(async move {
            let _ = sender.send(loading.load().await);
        });
        let loaded = wait(py, &Mutex::new(receiver))?
            .ok_or_else(|| PyRuntimeError::new_err("loading was cancelled"))?;
        loaded.map_err(|error| error::option(py, chain(&error)))?;
        Ok(Self { router: router(app), runtime: Mutex::new(Some(runtime)) })
    }
}

/// Creates a server without a model.
pub(crate) fn without_model() -> PyResult<App> {
    App::without_models(formwork_server::ServerOptions::default())
        .map_err(|error| PyRuntimeError::new_err(chain(&error)))
}

/// Joins an error and its causes with colons.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

fn closed() -> PyErr {
    Python::attach(|py| error::formwork(py, "the model is closed"))
}

/// A part of an answer.
enum Piece {
    Status(u16),
    Body(Bytes),
}

/// Sends the parts of the answer to `request`. Ends early if nobody reads them.
async fn answer(router: Router, request: Request<Body>, sender: SyncSender<Piece>) {
    let Ok(response) = router.oneshot(request).await;
    let (parts, mut body) = response.into_parts();
    if sender.send(Piece::Status(parts.status.as_u16())).is_err() {
        return;
    }
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(mut bytes) = frame.into_data() {
            // A full channel must not block a thread of the runtime.
            loop {
                match sender.try_send(Piece::Body(bytes)) {
                    Ok(()) => break,
                    Err(TrySendError::Full(Piece::Body(kept))) => bytes = kept,
                    Err(_) => return,
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

/// An answer that arrives in pieces. Dropping it ends the request.
#[pyclass(name = "Stream", module = "formwork._native", frozen)]
pub(crate) struct PyStream {
    receiver: Mutex<Receiver<Piece>>,
    task: JoinHandle<()>,
}

#[pymethods]
impl PyStream {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Returns the status as a number, then pieces of the body as bytes.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.next_piece(py)? {
            None => None,
            Some(Piece::Status(code)) => Some(code.into_pyobject(py)?.into_any()),
            Some(Piece::Body(bytes)) => Some(PyBytes::new(py, &bytes).into_any()),
        })
    }
}

impl PyStream {
    fn next_piece(&self, py: Python<'_>) -> PyResult<Option<Piece>> {
        wait(py, &self.receiver)
    }
}

impl Drop for PyStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits for a message without the interpreter. Returns an error if Ctrl-C is pressed, and `None` if the sender
/// is gone.
fn wait<T: Send>(py: Python<'_>, receiver: &Mutex<Receiver<T>>) -> PyResult<Option<T>> {
    let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(CHECK);
    loop {
        match py.detach(next) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}
