//! Plain descriptions of MCP errors. The SDK's own messages contain the names of its types.

use std::error::Error;

use rmcp::ServiceError;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use formwork_backend::innermost;

/// Describes why the handshake failed.
pub(super) fn of_handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "the server closed the connection before it answered".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::JsonRpcError(error) => {
            format!("the server refused the handshake: {} (code {})", error.message, error.code.0)
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let known: Vec<String> = server_supported.iter().map(ToString::to_string).collect();
            format!("unsupported protocol version; the server supports {}", known.join(", "))
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_handshake(fallback),
        ClientInitializeError::Cancelled => "the connection was cancelled".to_owned(),
        _ => "the answer is not an MCP handshake".to_owned(),
    }
}

/// Describes why a request has no result.
pub(super) fn of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.clone().into_owned(),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => "the connection is closed".to_owned(),
        ServiceError::UnexpectedResponse => "the server sent an unexpected response".to_owned(),
        ServiceError::Cancelled { reason: Some(reason) } => format!("the request was cancelled: {reason}"),
        ServiceError::Cancelled { reason: None } => "the request was cancelled".to_owned(),
        ServiceError::Timeout { timeout } => {
            format!("the server did not answer within {} seconds", timeout.as_secs_f64())
        }
        ServiceError::InputRequiredRoundsExceeded { .. } => "the server requested input too often".to_owned(),
        _ => "the request was not answered".to_owned(),
    }
}

fn of_transport(error: &DynamicTransportError) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error.error.as_ref());
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return of_http(error);
        }
        cause = error.source();
    }
    innermost(error.error.as_ref())
}

fn of_http(error: &StreamableHttpError<reqwest::Error>) -> String {
    match error {
        StreamableHttpError::Client(error) => of_client(error),
        StreamableHttpError::HttpStatus(error) => format!("the server answered with status {}", error.status),
        StreamableHttpError::AuthRequired(_) => {
            "the server requires a key, or rejected the given one".to_owned()
        }
        StreamableHttpError::InsufficientScope(_) => "the key lacks the required scope".to_owned(),
        StreamableHttpError::UnexpectedServerResponse(told) => of_answer(told),
        StreamableHttpError::UnexpectedContentType(Some(kind)) => {
            format!("the server answered with content of type {kind}")
        }
        StreamableHttpError::UnexpectedContentType(None) => {
            "the server answered without a content type".to_owned()
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            format!("the answer is larger than the limit of {max_size} bytes")
        }
        StreamableHttpError::Deserialize(error) => {
            format!("the answer is JSON, but not an MCP message: {error}")
        }
        StreamableHttpError::SessionExpired => "the session has expired".to_owned(),
        StreamableHttpError::UnexpectedEndOfStream | StreamableHttpError::TransportChannelClosed => {
            "the connection ended".to_owned()
        }
        StreamableHttpError::Io(error) => innermost(error),
        StreamableHttpError::Sse(error) => format!("the event stream cannot be read: {}", innermost(error)),
        _ => "the server does not follow the HTTP transport of MCP".to_owned(),
    }
}

/// Describes an answer that is not a protocol message.
///
/// `told` is the SDK's message. It contains either the HTTP status and the start of the text, or
/// the JSON error.
fn of_answer(told: &str) -> String {
    let told = told.trim().trim_end_matches(':');
    match told.split_once("JsonRpcMessage: ") {
        Some((_, wrong)) => format!("the answer is JSON, but not an MCP message: {wrong}"),
        None => format!("the answer is not an MCP message: {told}"),
    }
}

fn of_client(error: &reqwest::Error) -> String {
    match error.status() {
        Some(status) => format!("the server answered with status {}", status.as_u16()),
        None if error.is_timeout() => "the server took too long to answer".to_owned(),
        None if error.is_connect() => format!("the server could not be reached: {}", innermost(error)),
        None => innermost(error),
    }
}
