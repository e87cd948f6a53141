//! What runs tools: closures, processes and MCP servers.

mod command;
mod mcp;
mod reason;
mod tail;

use futures_util::future::{BoxFuture, FutureExt, ready};

pub use command::{CommandTool, Environment};
pub use mcp::{McpClient, McpOptions};

use super::envelope::{IntoToolResult, ToolResult};
use crate::Body;

/// What runs a tool. Its arguments have been checked against the schema before. Dropping the future gives up the call.
pub trait ToolExecutor: Send + Sync {
    /// Runs the tool. A failure is an envelope as well; a panic becomes one.
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult>;
}

/// A Rust closure that returns at once.
///
/// It runs where the loop runs, so one that takes long should be an [`AsyncClosure`] that leaves the work to a thread.
pub struct Closure<F>(F);

impl<F, R> Closure<F>
where
    F: Fn(&Body) -> R + Send + Sync,
    R: IntoToolResult,
{
    /// Runs `closure`.
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
        // The closure runs when the future does, so that its panics are the future's.
        async move { (self.0)(arguments).into_tool_result() }.boxed()
    }
}

/// A Rust closure that returns a future.
pub struct AsyncClosure<F>(F);

impl<F, W, R> AsyncClosure<F>
where
    F: Fn(Body) -> W + Send + Sync,
    W: Future<Output = R> + Send,
    R: IntoToolResult,
{
    /// Runs `closure` and waits for its future.
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

/// One that is known by its definition alone, as in records.
pub(super) struct Recorded;

impl ToolExecutor for Recorded {
    fn execute<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, ToolResult> {
        ready(ToolResult::failed("this tool is one of a record, and does not run")).boxed()
    }
}
