//! Feed-forward blocks of layers whose other parts are on another device.

use std::io;
use std::sync::Arc;

use formwork_kernels::Team;

use super::layer::Pass;
use super::product::Rounding;
use super::workspace::{Workspace, room};
use crate::spec::ModelSpec;
use crate::weights::{FeedForward, Packed, pack_blocks};

/// Feed-forward blocks of layers whose other parts are on another device.
#[derive(Debug)]
pub(crate) struct FeedForwards {
    /// The block of each layer. `None` where the other device computes it.
    blocks: Vec<Option<FeedForward<Packed>>>,
    team: Arc<Team>,
}

/// Input of a block for some tokens.
#[derive(Clone, Copy)]
pub(crate) struct BlockInput<'a> {
    /// The residual stream after the norm of the block. Shape: `[tokens, hidden]`.
    pub(crate) normed: &'a [f32],
    /// The residual stream, of the same shape. Empty if the block does not need it
    /// ([`FeedForwards::reads_stream`]).
    pub(crate) stream: &'a [f32],
    /// True if each token is the first of its sequence.
    pub(crate) is_first: bool,
}

/// Memory for the intermediate results of blocks.
#[derive(Debug, Default)]
pub(crate) struct BlockWorkspace(Workspace);

impl FeedForwards {
    /// Packs the blocks of all layers.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(crate) fn new(blocks: Vec<Option<FeedForward>>, team: Arc<Team>) -> io::Result<Self> {
        Ok(Self { blocks: pack_blocks(blocks)?, team })
    }

    /// Returns the number of blocks.
    pub(crate) fn count(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// Returns the number of threads that compute.
    pub(crate) fn threads(&self) -> usize {
        self.team.threads()
    }

    /// Reports whether the block of layer `layer` is here.
    pub(crate) fn has(&self, layer: usize) -> bool {
        self.blocks.get(layer).is_some_and(Option::is_some)
    }

    /// Reports whether the block of layer `layer` also needs the residual stream before its norm.
    pub(crate) fn reads_stream(&self, layer: usize) -> bool {
        matches!(self.blocks.get(layer), Some(Some(FeedForward::DenseAndExperts(_))))
    }

    /// Computes the block of layer `layer` of the model `spec`. Returns its output, of the shape of the
    /// input. Without such a block, the output is empty.
    pub(crate) fn compute<'w>(
        &self,
        spec: &ModelSpec,
        layer: usize,
        input: BlockInput<'_>,
        BlockWorkspace(workspace): &'w mut BlockWorkspace,
    ) -> &'w [f32] {
        let Some(Some(block)) = self.blocks.get(layer) else { return &[] };
        let BlockInput { normed, stream, is_first } = input;
        room(&mut workspace.normed, normed.len()).copy_from_slice(normed);
        let tokens = normed.len() / spec.hidden;
        let roundings = vec![Rounding::at(usize::from(!is_first)); tokens];
        let pass = Pass { spec, team: &self.team, roundings, adapters: Vec::new(), tokens: Vec::new() };
        // Blocks that do not read the stream still take the number of tokens from it.
        let stream = if stream.is_empty() { normed } else { stream };
        pass.feed_forward(block, stream, workspace);
        &workspace.result[..normed.len()]
    }
}
