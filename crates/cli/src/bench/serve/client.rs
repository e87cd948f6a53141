//! A benchmark client: one connection, with streamed answers.

use std::error::Error as _;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Maximum number of bytes of an error body that are reported.
const TOLD: usize = 300;

/// The address of a chat endpoint, with the API key.
#[derive(Clone)]
pub(super) struct Target {
    authority: String,
    address: String,
    path: String,
    api_key: Option<String>,
}

impl Target {
    /// Parses `url`, which OpenAI clients call the base URL. A URL without a path gets `/v1`.
    pub(super) fn new(url: &str, api_key: Option<String>) -> Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("--url {url}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                bail!("--url {url}: https is not supported; measure the server behind the proxy")
            }
            _ => bail!("--url {url}: expected http://HOST:PORT/v1"),
        }
        let authority = uri.authority().context("--url has no host")?.as_str().to_owned();
        let host = uri.host().unwrap_or_default();
        let base = match uri.path().trim_end_matches('/') {
            "" => "/v1",
            path => path,
        };
        Ok(Self {
            address: format!("{host}:{}", uri.port_u16().unwrap_or(80)),
            authority,
            path: format!("{base}/chat/completions"),
            api_key,
        })
    }

    fn request(&self, body: String) -> Result<Request<Full<Bytes>>> {
        let mut request =
            Request::post(&self.path).header(HOST, &self.authority).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.api_key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        Ok(request.body(Full::new(body.into()))?)
    }
}

/// The answer to one request, with its timings.
#[derive(Default, Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    /// Number of tokens as the server reports it, or else the number of chunks with text.
    pub(super) tokens: usize,
    /// True if the token limit ended the answer.
    pub(super) cut: bool,
    /// Time from the start of the request to the first chunk with text; zero if there is none.
    pub(super) first: Duration,
    /// Times between consecutive chunks with text.
    pub(super) between: Vec<Duration>,
}

/// A client that reuses its connection.
pub(super) struct Client {
    target: Target,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(super) const fn new(target: Target) -> Self {
        Self { target, sender: None }
    }

    /// Sends a request and reads the whole answer. Timing starts before connecting.
    pub(super) async fn ask(&mut self, body: String) -> Result<Answer> {
        let started = Instant::now();
        let (sender, response) = self.send(&body).await?;
        let answer = read(response, started).await?;
        self.sender = Some(sender);
        Ok(answer)
    }

    /// Sends a request and reuses the previous connection, if any. Servers close connections after
    /// some requests. A request that fails for this reason is sent once more on a new connection.
    async fn send(&mut self, body: &str) -> Result<(SendRequest<Full<Bytes>>, Response<Incoming>)> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            match sender.send_request(self.target.request(body.to_owned())?).await {
                Ok(response) => return Ok((sender, response)),
                Err(error) if was_closed(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(self.target.request(body.to_owned())?).await?;
        Ok((sender, response))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let address = &self.target.address;
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Requests on the connection report how the connection ends.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Reports whether the request failed because the other side had closed the connection.
fn was_closed(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let is_reset = source.is_some_and(|error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    });
    is_reset || error.is_canceled() || error.is_closed() || error.is_incomplete_message()
}

async fn read(mut response: Response<Incoming>, started: Instant) -> Result<Answer> {
    let status = response.status();
    if !status.is_success() {
        let body = response.into_body().collect().await?.to_bytes();
        let body = String::from_utf8_lossy(&body[..body.len().min(TOLD)]).into_owned();
        bail!("{status}: {body}");
    }
    let mut reading = Reading { started, ..Reading::default() };
    while let Some(frame) = response.frame().await {
        if let Ok(data) = frame?.into_data() {
            reading.take(&data, Instant::now())?;
        }
    }
    ensure!(reading.done, "the stream ended before `[DONE]`");
    let Reading { mut answer, usage, chunks, .. } = reading;
    answer.tokens = usage.unwrap_or(chunks);
    Ok(answer)
}

/// State of a partly read event stream.
struct Reading {
    started: Instant,
    last: Option<Instant>,
    line: Vec<u8>,
    usage: Option<usize>,
    /// Number of chunks with text.
    chunks: usize,
    done: bool,
    answer: Answer,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            last: None,
            line: Vec::new(),
            usage: None,
            chunks: 0,
            done: false,
            answer: Answer::default(),
        }
    }
}

impl Reading {
    /// Processes bytes that arrived at `now`.
    fn take(&mut self, bytes: &[u8], now: Instant) -> Result<()> {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = str::from_utf8(&line).context("the stream is not UTF-8")?.trim_end_matches('\r');
            // Other lines are comments and event names.
            if let Some(data) = line.strip_prefix("data:") {
                self.event(data.trim_start(), now)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, data: &str, now: Instant) -> Result<()> {
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let event: Value = serde_json::from_str(data).context("an event is not JSON")?;
        if let Some(error) = event.get("error") {
            bail!("{error}");
        }
        if let Some(tokens) = event["usage"]["completion_tokens"].as_u64() {
            self.usage = Some(tokens as usize);
        }
        let choice = &event["choices"][0];
        self.answer.cut |= choice["finish_reason"] == "length";
        // Reasoning takes as long as content, so its chunks count too.
        let text = |name: &str| choice["delta"][name].as_str().filter(|text| !text.is_empty());
        let content = text("content");
        if content.is_none() && text("reasoning_content").is_none() {
            return Ok(());
        }
        self.answer.text.push_str(content.unwrap_or_default());
        self.chunks += 1;
        match self.last.replace(now) {
            None => self.answer.first = now - self.started,
            Some(last) => self.answer.between.push(now - last),
        }
        Ok(())
    }
}
