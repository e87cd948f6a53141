//! Parsing of requests and serialization of responses.

mod completions;
mod directives;
mod request;
mod response;
mod responses;
mod tools;
