//! The `formwork` program. The library has the command.

use std::process::ExitCode;

// The allocator of musl itself takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(formwork_cli::run(std::env::args_os()))
}
