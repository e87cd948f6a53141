//! Reads the bodies of error responses.

use std::time::Duration;

use serde_json::Value;

use super::{BackendError, Kind};

/// Maximum number of characters of an error body that are kept in the message.
const TOLD: usize = 500;

impl BackendError {
    /// Creates the error for a status other than 2xx, with the response body. `retry_after` is the
    /// delay before the next attempt that the server requested, if any.
    pub fn of_status(status: u16, body: &str, retry_after: Option<Duration>) -> Self {
        let error = serde_json::from_str::<Value>(body).ok();
        let error = error.as_ref().map(|body| body.get("error").unwrap_or(body));
        let detail = error.and_then(detail);
        // OpenAI's error object, the plain text that some servers put in `error`, the details that
        // web frameworks send, or the whole body.
        let message = error.and_then(|error| error.get("message").unwrap_or(error).as_str());
        let message = message.or(detail.as_deref()).unwrap_or(body);
        let code = error.and_then(|error| error.get("code")).map(|code| match code {
            Value::String(code) => code.clone(),
            other => other.to_string(),
        });
        let code = code.filter(|code| code != "null");
        let is_safety = crate::safety::is_refusal(status, code.as_deref(), error, message);
        let param = error.and_then(|error| error.get("param")?.as_str()).map(str::to_owned);
        let message = message.trim().chars().take(TOLD).collect();
        Kind::Status { status, message, code, param, retry_after, is_safety }.into()
    }

    /// Returns the error in a body that was sent with status 200, as some gateways do. The status is
    /// the error's own code or status, or else the one of its type; 502 if neither is known.
    pub(crate) fn in_body(body: &Value) -> Option<Self> {
        let error = body.get("error").filter(|error| !error.is_null())?;
        let status = ["code", "status", "status_code"].into_iter().find_map(|name| status(error.get(name)?));
        let named =
            || ["type", "code"].into_iter().find_map(|name| status_of_name(error.get(name)?.as_str()?));
        Some(Self::from_status(status.or_else(named).unwrap_or(502), &body.to_string()))
    }
}

/// Returns the texts in `detail`, in which some web frameworks describe what is wrong with a request.
fn detail(error: &Value) -> Option<String> {
    let told = match error.get("detail")? {
        Value::String(text) => return Some(text.clone()),
        Value::Array(told) => told,
        _ => return None,
    };
    let line = |item: &Value| {
        let place = item["loc"].as_array().into_iter().flatten();
        let place: Vec<_> =
            place.map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned)).collect();
        Some(format!("{}: {}", place.join("."), item["msg"].as_str()?))
    };
    Some(told.iter().map(line).collect::<Option<Vec<_>>>()?.join("; "))
}

/// Returns the status of an error response, given as a number or as text.
fn status(value: &Value) -> Option<u16> {
    let given = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(given).ok().filter(|status| (400..600).contains(status))
}

/// Returns the status that the type of an error stands for.
fn status_of_name(name: &str) -> Option<u16> {
    Some(match name {
        "invalid_request_error" | "BadRequestError" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "permission_error" => 403,
        "not_found_error" | "NotFoundError" => 404,
        "rate_limit_error" | "rate_limit_exceeded" | "rate_limited" => 429,
        "not_supported_error" => 501,
        "overloaded_error" | "unavailable_error" => 503,
        "timeout_error" => 504,
        _ => return None,
    })
}
