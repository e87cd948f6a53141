//! What is read from requests and written into answers.

mod completions;
mod directives;
mod request;
mod response;
mod responses;
mod tools;
