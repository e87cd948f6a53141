//! Executors of tools: closures, processes, HTTP callbacks and MCP servers.

mod command;
mod http;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod reason;
use futures_util::future::{BoxFuture, FutureExt, ready};

pub use command::{CommandTool, Environment};
pub use http::{HttpTool, UrlPrefix};
#[cfg(feature = "mcp")]
pub use mcp::{McpClient, McpOptions};

use super::envelope::{IntoToolResult, ToolResult};
use crate::Body;

/// Executor of a tool.
///
/// Arguments are checked against the tool's schema before the call. Dropping the future cancels the
/// call.
pub trait ToolExecutor: Send + Sync {
    /// Runs the tool with `arguments`. A failure is a result with `ok: false`. If the future
    /// panics, the caller converts the panic to such a result.
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult>;
}

/// Tool implemented by a synchronous Rust closure.
///
/// The closure runs on the thread that polls the tool loop and blocks it. Long work belongs in an
/// [`AsyncClosure`] that uses another thread.
pub struct Closure<F>(F);

impl<F, R> Closure<F>
where
    F: Fn(&Body) -> R + Send + Sync,
    R: IntoToolResult,
{
    /// Creates a tool that runs `closure`.
    pub const fn new(closure: F) -> Self {
        Self(closure)
    }
}

impl<F, R> ToolExecutor for Closure<F>
where
    F: Fn(&Body) -> R + Send + Sync,
    R: IntoToolResult,
{
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult> {
        // The closure runs inside the future, so that its panics occur in the future.
        async move { (self.0)(arguments).into_tool_result() }.boxed()
    }
}

/// Tool implemented by a Rust closure that returns a future.
pub struct AsyncClosure<F>(F);

impl<F, W, R> AsyncClosure<F>
where
    F: Fn(Body) -> W + Send + Sync,
    W: Future<Output = R> + Send,
    R: IntoToolResult,
{
    /// Creates a tool that runs `closure` and awaits its future.
    pub const fn new(closure: F) -> Self {
        Self(closure)
    }
}

impl<F, W, R> ToolExecutor for AsyncClosure<F>
where
    F: Fn(Body) -> W + Send + Sync,
    W: Future<Output = R> + Send,
    R: IntoToolResult,
{
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult> {
        async move { (self.0)(arguments.clone()).await.into_tool_result() }.boxed()
    }
}

/// Executor for tools of a record, which have a definition but cannot run.
pub(super) struct Recorded;

impl ToolExecutor for Recorded {
    fn execute<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, ToolResult> {
        ready(ToolResult::failed("this tool belongs to a record and cannot run")).boxed()
    }
}
