//! Tests of the HTTP API: in process where possible, over a loopback socket where connections
//! matter.

#![allow(clippy::unwrap_used, reason = "a test without its server has failed")]

mod begun;
mod chat;
mod completions;
mod constraint;
mod conversations;
mod custom_tools;
mod decisions;
mod directives;
mod embeddings;
mod example_clients;
mod fixture;
mod functions;
mod grammar;
mod ignored;
mod infill;
mod limits;
mod mask_view;
mod messages;
mod namespaces;
mod numbered_calls;
mod ollama;
mod ollama_models;
mod openapi;
mod operations;
mod output_decisions;
mod page;
mod providers;
mod refusal;
mod registry;
mod responses;
mod schemas;
mod socket;
mod stored_items;
mod stored_responses;
mod tagged_calls;
mod tokens;
mod tool_loops;
mod tool_runs;
mod tools;
mod upstream;
