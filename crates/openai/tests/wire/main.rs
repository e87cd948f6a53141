//! Tests of the parsing of requests and the serialization of responses.

mod agents;
mod completions;
mod custom_tools;
mod directives;
mod namespaces;
mod ollama;
mod request;
mod response;
mod responses;
mod structural_tags;
mod tools;
