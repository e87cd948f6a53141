//! Tools that are HTTP callbacks.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;

use super::super::envelope::{Problem, ToolResult, codes};
use super::super::error::{Kind, ToolsError};
use super::ToolExecutor;
use crate::Body;

/// Maximum number of characters of an error body in a failure.
const TOLD: usize = 500;

/// Tool that sends a `POST` request for each call.
///
/// The body of the request is the arguments as a JSON object. The response is read as the output of
/// a [`CommandTool`](super::CommandTool): a body in the shape of a [`ToolResult`] is the result, any
/// other JSON becomes its `data`, and other text becomes a string in `data`. The call fails if the
/// status is not 2xx, unless the body is a `ToolResult` with `ok: false`. Redirects are failures,
/// so a request never leaves the given address.
#[derive(Clone, Debug)]
pub struct HttpTool {
    client: Client,
    url: Url,
    bearer: Option<HeaderValue>,
    timeout: Duration,
    output_limit: usize,
}

impl HttpTool {
    /// Creates a tool that calls `url`. The timeout is 30 seconds, and the limit of the response is
    /// 1 MiB.
    ///
    /// # Errors
    /// Returns an error if `url` is not an HTTP URL, or contains a user name or a password.
    pub fn new(url: &str) -> Result<Self, ToolsError> {
        let parsed = parse_url(url)?;
        // Installation fails if the process already has a TLS provider, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            Client::builder().connect_timeout(Duration::from_secs(10)).redirect(Policy::none()).no_proxy();
        let client = client
            .build()
            .map_err(|error| Kind::ToolUrl { given: url.to_owned(), reason: error.to_string() })?;
        let timeout = Duration::from_secs(30);
        Ok(Self { client, url: parsed, bearer: None, timeout, output_limit: 1 << 20 })
    }

    /// Sends a key with every request, as `authorization: Bearer KEY`.
    ///
    /// # Errors
    /// Returns an error if the key contains characters that are not allowed in a header.
    pub fn with_bearer(mut self, key: &str) -> Result<Self, ToolsError> {
        let value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| Kind::ToolKey)?;
        self.bearer = Some(value).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        Ok(self)
    }

    /// Sets the timeout of each call.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of a response in bytes.
    #[must_use]
    pub const fn with_output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    async fn call(&self, arguments: &Body) -> Result<ToolResult, Problem> {
        let body = Value::Object(arguments.clone()).to_string();
        let mut request =
            self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        let unavailable = |error: &reqwest::Error| {
            let message = format!("the tool's server could not be reached: {}", innermost(error));
            Problem::new(codes::TOOL_UNAVAILABLE, message)
        };
        let talk = async {
            let response = request.send().await.map_err(|error| unavailable(&error))?;
            let status = response.status();
            let output = self.whole(response).await?;
            Ok::<_, Problem>((status, output))
        };
        let ended = tokio::time::timeout(self.timeout, talk).await;
        let (status, output) = ended.map_err(|_| {
            let message = format!("the tool did not finish within {} seconds", self.timeout.as_secs_f64());
            Problem::new(codes::TIMEOUT, message)
        })??;
        result(status, &output)
    }

    async fn whole(&self, mut response: Response) -> Result<Vec<u8>, Problem> {
        let mut output = Vec::new();
        loop {
            let chunk = response.chunk().await.map_err(|error| {
                let message = format!("the tool's response is incomplete: {}", innermost(&error));
                Problem::new(codes::TOOL_UNAVAILABLE, message)
            })?;
            let Some(chunk) = chunk else { return Ok(output) };
            if chunk.len() > self.output_limit - output.len() {
                let message = format!("the tool's response has more than {} bytes", self.output_limit);
                let problem = Problem::new(codes::TOOL_OUTPUT_TOO_LARGE, message);
                return Err(problem.with("limit", self.output_limit));
            }
            output.extend_from_slice(&chunk);
        }
    }
}

/// Parses the URL of a tool.
pub(crate) fn parse_url(given: &str) -> Result<Url, ToolsError> {
    let fault = |reason: String| Kind::ToolUrl { given: given.to_owned(), reason };
    let url = Url::parse(given).map_err(|error| fault(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(fault(format!("unsupported scheme `{}`; expected http or https", url.scheme())).into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(fault("a URL must not contain a user name or a password".to_owned()).into());
    }
    Ok(url)
}

fn result(status: StatusCode, output: &[u8]) -> Result<ToolResult, Problem> {
    let text = String::from_utf8_lossy(output);
    let text = text.trim();
    let output = match serde_json::from_str(text) {
        Ok(output) => output,
        Err(_) if text.is_empty() => Value::Null,
        Err(_) => Value::String(text.to_owned()),
    };
    let result = ToolResult::from_output(output);
    if status.is_success() || !result.ok {
        return Ok(result);
    }
    let mut problem = Problem::from(format!("the tool's server answered {}", status.as_u16()));
    problem = problem.with("status", status.as_u16());
    if !text.is_empty() {
        problem = problem.with("body", text.chars().take(TOLD).collect::<String>());
    }
    Err(problem)
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

impl ToolExecutor for HttpTool {
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult> {
        self.call(arguments).map(|called| called.unwrap_or_else(ToolResult::failed)).boxed()
    }
}

/// Addresses that tools of untrusted origin may have: all URLs below one URL.
///
/// ```
/// use formwork_protocol::tools::UrlPrefix;
/// let allowed = UrlPrefix::new("http://127.0.0.1:9000/tools")?;
/// assert!(allowed.covers("http://127.0.0.1:9000/tools/weather?unit=c"));
/// assert!(!allowed.covers("http://127.0.0.1:9000/toolsmith"));
/// assert!(!allowed.covers("http://127.0.0.1:9000/tools/../admin"));
/// assert!(!allowed.covers("http://127.0.0.1:9000.example.com/tools"));
/// # Ok::<(), formwork_protocol::tools::ToolsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPrefix(Url);

impl UrlPrefix {
    /// Creates the prefix from a URL without query and fragment.
    ///
    /// # Errors
    /// Returns an error if `url` is not an HTTP URL, or contains a user name, a password, a query or
    /// a fragment.
    pub fn new(url: &str) -> Result<Self, ToolsError> {
        let parsed = parse_url(url)?;
        if parsed.query().is_some() || parsed.fragment().is_some() {
            let reason = "a prefix must not contain a query or a fragment".to_owned();
            return Err(Kind::ToolUrl { given: url.to_owned(), reason }.into());
        }
        Ok(Self(parsed))
    }

    /// Reports whether `url` has the scheme, the host and the port of the prefix, and a path below
    /// its path. The last part of the prefix's path must match as a whole.
    ///
    /// A server may decode a path, or remove parts of it, before it resolves `..`. So a path is refused
    /// if a part of it may become `.` or `..`. A path with control characters, with text that is encoded
    /// twice, or with bytes that are not UTF-8 is refused as well.
    pub fn covers(&self, url: &str) -> bool {
        let Ok(url) = parse_url(url) else { return false };
        let (allowed, path) = (self.0.path().trim_end_matches('/'), url.path());
        let below = path.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        url.origin() == self.0.origin() && below && is_plain(path)
    }

    /// Returns the URL.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Reports whether no part of a path can become `.` or `..` on a server.
fn is_plain(path: &str) -> bool {
    let Some(decoded) = decode(path) else { return false };
    if decoded.contains(['%', '\u{fffd}']) || decoded.chars().any(char::is_control) {
        return false;
    }
    let plain: String = decoded.chars().filter(|c| !is_invisible(*c)).map(plain_of).collect();
    let is_dots = |part: &str| {
        let part = part.trim();
        part.contains('.') && part.chars().all(|c| c == '.' || c.is_whitespace())
    };
    !plain.split(['/', '\\']).any(|segment| segment.split(';').any(is_dots))
}

/// Decodes the escapes of a path. Returns `None` if the result is not UTF-8.
fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).ok()
}

/// Returns the ASCII character that a server may read instead of `c`.
const fn plain_of(c: char) -> char {
    match c {
        '．' | '․' | '‥' | '…' | '﹒' | '。' | '｡' => '.',
        '／' | '⁄' | '∕' | '＼' | '∖' => '/',
        '；' => ';',
        other => other,
    }
}

/// Reports whether a server may remove `c`.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Serves one response and returns the URL and the request.
    async fn serve(response: String) -> (String, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/weather", listener.local_addr().expect("an address"));
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.expect("a request");
            let mut text = String::from_utf8_lossy(&request[..count]).into_owned();
            if !text.ends_with('}') {
                let count = stream.read(&mut request).await.expect("a body");
                text.push_str(&String::from_utf8_lossy(&request[..count]));
            }
            stream.write_all(response.as_bytes()).await.expect("a reader");
            text
        });
        (url, asked)
    }

    fn response(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }

    async fn call(response: String) -> (ToolResult, String) {
        let (url, asked) = serve(response).await;
        let tool = HttpTool::new(&url).expect("a tool").with_bearer("secret").expect("a key");
        let tool = tool.with_output_limit(100).with_timeout(Duration::from_secs(20));
        let arguments = json!({ "city": "Paris" });
        let result = tool.execute(arguments.as_object().expect("an object")).await;
        (result, asked.await.expect("a server"))
    }

    #[tokio::test]
    async fn posts_the_arguments_and_reads_results() {
        let (result, asked) = call(response("200 OK", r#"{"sky": "clear"}"#)).await;
        assert_eq!(result, ToolResult::ok(json!({ "sky": "clear" })));
        assert!(
            asked.starts_with("POST /weather HTTP/1.1\r\n") && asked.ends_with(r#"{"city":"Paris"}"#),
            "{asked}"
        );
        assert!(asked.to_lowercase().contains("authorization: bearer secret\r\n"), "{asked}");
        assert_eq!(call(response("200 OK", "clear")).await.0, ToolResult::ok("clear"));
        assert_eq!(call(response("204 No Content", "")).await.0, ToolResult::ok(Value::Null));
        let envelope = r#"{"ok": false, "errors": [{"code": "NO_SUCH_CITY", "message": "no"}]}"#;
        let failed = ToolResult::failed(Problem::new("NO_SUCH_CITY", "no"));
        assert_eq!(call(response("404 Not Found", envelope)).await.0, failed);
    }

    #[tokio::test]
    async fn reports_failures_by_code() {
        for (answer, code) in [
            (response("500 Internal Server Error", "oops"), codes::TOOL_ERROR),
            (
                "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_owned(),
                codes::TOOL_ERROR,
            ),
            (response("200 OK", &"x".repeat(101)), codes::TOOL_OUTPUT_TOO_LARGE),
            ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{".to_owned(), codes::TOOL_UNAVAILABLE),
            (String::new(), codes::TOOL_UNAVAILABLE),
        ] {
            let (result, _) = call(answer.clone()).await;
            assert_eq!(result.errors[0].code, code, "{answer}");
        }
        let nobody = HttpTool::new("http://127.0.0.1:9/").expect("a tool");
        assert_eq!(nobody.execute(&Body::new()).await.errors[0].code, codes::TOOL_UNAVAILABLE);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let slow = HttpTool::new(&url).expect("a tool").with_timeout(Duration::from_millis(50));
        assert_eq!(slow.execute(&Body::new()).await.errors[0].code, codes::TIMEOUT);
        for bad in ["weather", "ftp://127.0.0.1/", "http://me:secret@127.0.0.1/"] {
            assert!(HttpTool::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_prefix_covers_only_what_is_below() {
        let allowed = UrlPrefix::new("https://example.com/tools/").expect("a prefix");
        for url in [
            "https://example.com/tools",
            "https://EXAMPLE.com:443/tools/a/b?c=d",
            "https://example.com/tools/a%20b",
            "https://example.com/tools/a.b/..c/v1.2",
            "https://example.com/tools/a;v=1/b",
            "https://example.com/tools/%C3%A9t%C3%A9",
        ] {
            assert!(allowed.covers(url), "{url}");
        }
        for url in [
            "http://example.com/tools",
            "https://example.com:8443/tools",
            "https://example.com/toolsmith",
            "https://example.com/tools/../admin",
            "https://example.com/tools/%2e%2e/admin",
            "https://example.com/tools/..%2fadmin",
            "https://example.com/tools/%252e%252e/admin",
            "https://example.com/tools/..;/admin",
            "https://example.com/tools/..;a=b/admin",
            "https://example.com/tools/;../admin",
            "https://example.com/tools/%2e%2e%3b/admin",
            "https://example.com/tools/..%3b/admin",
            "https://example.com/tools/%c0%ae%c0%ae/admin",
            "https://example.com/tools/%c0%ae./admin",
            "https://example.com/tools/.%0a./admin",
            "https://example.com/tools/.%00./admin",
            "https://example.com/tools/a%0d%0ab",
            "https://example.com/tools/..%20/admin",
            "https://example.com/tools/..%5cadmin",
            "https://example.com/tools/%ef%bc%8e%ef%bc%8e/admin",
            "https://example.com/tools/．．/admin",
            "https://example.com/tools/.%e2%80%8b./admin",
            "https://example.com/tools/.../admin",
            "https://example.com\\@evil.com/tools",
            "https://example.com@evil.com/tools",
            "https://example.com.evil.com/tools",
            "https://user@example.com/tools",
            "tools",
        ] {
            assert!(!allowed.covers(url), "{url}");
        }
        assert!(UrlPrefix::new("http://127.0.0.1:1").expect("a prefix").covers("http://127.0.0.1:1/any"));
        assert!(UrlPrefix::new("http://127.0.0.1/?a").is_err());
    }
}
