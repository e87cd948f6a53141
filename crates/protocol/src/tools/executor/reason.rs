//! Plain descriptions of MCP errors. The SDK's own messages contain the names of its types.

use std::error::Error;

use rmcp::ServiceError;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::backend::innermost;

/// Describes why the handshake failed.
pub(super) fn of_handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection before it answered".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused the handshake: {} (code {})", error.message, error.code.0)
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let known: Vec<String> = server_supported.iter().map(ToString::to_string).collect();
            format!("it speaks other versions of the protocol: {}", known.join(", "))
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_handshake(fallback),
        ClientInitializeError::Cancelled => "the connection was given up".to_owned(),
        _ => "what it answered is no handshake of the protocol".to_owned(),
    }
}

/// Describes why a request has no result.
pub(super) fn of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.clone().into_owned(),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => "the connection is closed".to_owned(),
        ServiceError::UnexpectedResponse => "it answered with something else than was asked for".to_owned(),
        ServiceError::Cancelled { reason: Some(reason) } => format!("it was given up: {reason}"),
        ServiceError::Cancelled { reason: None } => "it was given up".to_owned(),
        ServiceError::Timeout { timeout } => {
            format!("there was no answer within {} seconds", timeout.as_secs_f64())
        }
        ServiceError::InputRequiredRoundsExceeded { .. } => "it asks for more and more input".to_owned(),
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
        StreamableHttpError::HttpStatus(error) => format!("it answered with status {}", error.status),
        StreamableHttpError::AuthRequired(_) => {
            "it asks for a key, or does not take the one it got".to_owned()
        }
        StreamableHttpError::InsufficientScope(_) => "the key is not for this".to_owned(),
        StreamableHttpError::UnexpectedServerResponse(told) => of_answer(told),
        StreamableHttpError::UnexpectedContentType(Some(kind)) => {
            format!("it answered with content of type {kind}")
        }
        StreamableHttpError::UnexpectedContentType(None) => "it answered with content of no type".to_owned(),
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            format!("its answer is larger than {max_size} bytes")
        }
        StreamableHttpError::Deserialize(error) => {
            format!("it answered with JSON that is not the protocol's: {error}")
        }
        StreamableHttpError::SessionExpired => "its session is over".to_owned(),
        StreamableHttpError::UnexpectedEndOfStream | StreamableHttpError::TransportChannelClosed => {
            "the connection ended".to_owned()
        }
        StreamableHttpError::Io(error) => innermost(error),
        StreamableHttpError::Sse(error) => format!("its events cannot be read: {}", innermost(error)),
        _ => "it does not speak HTTP as the protocol asks for".to_owned(),
    }
}

/// Describes an answer that is not a protocol message.
///
/// The SDK reports the status and the start of the text, or the JSON error.
fn of_answer(told: &str) -> String {
    let told = told.trim().trim_end_matches(':');
    match told.split_once("JsonRpcMessage: ") {
        Some((_, wrong)) => format!("it answered with JSON that is not the protocol's: {wrong}"),
        None => format!("it answered with something else: {told}"),
    }
}

fn of_client(error: &reqwest::Error) -> String {
    match error.status() {
        Some(status) => format!("it answered with status {}", status.as_u16()),
        None if error.is_timeout() => "it took too long to answer".to_owned(),
        None if error.is_connect() => format!("it could not be reached: {}", innermost(error)),
        None => innermost(error),
    }
}
