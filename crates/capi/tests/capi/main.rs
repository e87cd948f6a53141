//! The C ABI, called from Rust and from C, and its header.

#![allow(unsafe_code, reason = "a C ABI is called with pointers")]
#![allow(clippy::unnecessary_box_returns, reason = "the functions under test return boxes")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod calls;
mod examples;
mod failures;
mod header;
mod support;
