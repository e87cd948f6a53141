//! The server's bytes: in process where that shows enough, over a loopback socket where connections matter.

mod chat;
mod constraint;
mod fixture;
mod refusal;
mod socket;
