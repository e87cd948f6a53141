//! The interface between an open model and the code that computes it.

use std::sync::Arc;

use formwork_lm::{LanguageModel, ModelError};
use formwork_vocab::TokenId;

use crate::adapter::{Adapter, AdapterFile};
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::spec::ModelSpec;

/// Bound adapters and their names.
#[derive(Clone, Default)]
pub(crate) struct Adapters {
    pub(crate) names: Vec<String>,
    pub(crate) bound: Vec<Arc<Adapter>>,
}

/// Time of some steps of a forward pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepTime {
    /// Purpose of the steps.
    pub name: &'static str,
    /// Number of steps.
    pub steps: usize,
    /// Time of all these steps, in seconds, by the device's clock. NaN if the device has none.
    pub seconds: f64,
}

/// A model's weights on a device. All decoders of a model share them.
pub(crate) trait Backend: Send + Sync {
    /// Returns the name of the device, such as `cpu` or `cuda:0`.
    fn device_name(&self) -> String;

    /// Returns the number of threads that compute on the CPU.
    fn threads(&self) -> usize;

    /// Returns the model's specification, or `None` for one of candle's own models.
    fn spec(&self) -> Option<&ModelSpec>;

    /// Binds an adapter to the weights. `base` is the checkpoint of the weights, and `scale` a factor of
    /// the adapter's effect.
    ///
    /// # Errors
    /// Returns an error if the adapter does not fit the model, or if the back end has no adapters.
    fn bind(&self, file: &AdapterFile, base: &Checkpoint, scale: f32) -> Result<Adapter, Kind> {
        let _ = (file, base, scale);
        Err(Kind::AdapterDevice)
    }

    /// Creates a decoder without sequences. Each sequence can have up to `context` tokens. `adapters` are
    /// results of [`Backend::bind`].
    fn decoder(self: Arc<Self>, context: usize, adapters: Adapters) -> Box<dyn LanguageModel>;

    /// Computes the residual stream of `tokens` before the first layer and after each layer. Shape
    /// of each element: `[tokens, hidden]`.
    fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError>;

    /// Measures the steps of a pass of `tokens` tokens of a sequence after `position` others.
    ///
    /// # Errors
    /// Returns an error if the back end has no such measurement, or fails.
    fn step_times(&self, tokens: usize, position: usize) -> Result<Vec<StepTime>, ModelError> {
        let _ = (tokens, position);
        Err(ModelError::unsupported("the measurement of steps"))
    }

    /// Reads all weights that the computation of any token needs, and returns their size in bytes.
    /// Returns `None` if the back end does not support this measurement.
    fn read_weights(&self) -> Option<usize> {
        None
    }
}
