//! What is read from requests and written into answers.

mod request;
mod response;
