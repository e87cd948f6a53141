//! The C ABI, called from Rust and from C, and its header.

#![allow(unsafe_code, reason = "a C ABI is called with pointers")]

mod calls;
mod examples;
mod failures;
mod header;
mod support;
