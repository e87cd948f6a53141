use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::request::{Fields, Place};
use crate::{IgnoredFields, RequestError};

/// Reply to `/api/tags`: the names of all models.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListedModels {
    /// The models, loaded or not.
    pub models: Vec<ListedModel>,
}

/// Name of a model that the server offers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListedModel {
    /// Name of the model in requests.
    pub name: String,
    /// Same as `name`.
    pub model: String,
    /// Time at which the model became available, as [`timestamp`](super::timestamp) writes it.
    pub modified_at: String,
    /// Estimated size in memory, in bytes. 0 if it is not known.
    pub size: u64,
    /// Always empty: the server computes no digests of models.
    pub digest: String,
    /// Facts about the model.
    pub details: ModelDetails,
}

/// Facts about a model. What the server does not know is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ModelDetails {
    /// Model to which the adapter of this model belongs. Empty for a model without an adapter.
    pub parent_model: String,
    /// Format of the model's files.
    pub format: String,
    /// Architecture of the model.
    pub family: String,
    /// Architectures of all parts of the model.
    pub families: Vec<String>,
    /// Number of parameters, such as `7B`.
    pub parameter_size: String,
    /// Type of the weights, such as `Q4_K_M`.
    pub quantization_level: String,
}

/// Reply to `/api/ps`: the models in memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoadedModels {
    /// The models.
    pub models: Vec<LoadedModel>,
}

/// Model in memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoadedModel {
    /// Name of the model in requests.
    pub name: String,
    /// Same as `name`.
    pub model: String,
    /// Estimated size in memory, in bytes. 0 if it is not known.
    pub size: u64,
    /// Always empty: the server computes no digests of models.
    pub digest: String,
    /// Facts about the model.
    pub details: ModelDetails,
    /// Time at which the model is unloaded if it is idle: a far one, since only other models displace it.
    pub expires_at: String,
    /// Always 0: the server does not report the memory of devices.
    pub size_vram: u64,
    /// Maximum number of tokens of a prompt and its output.
    pub context_length: usize,
}

/// Request to `/api/show`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShowRequest {
    /// Name under which the server offers the model. Empty if the request has none.
    pub model: String,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

impl ShowRequest {
    /// Parses the body of a request. The name of the model is in `model`, or in the older `name`.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, or a name is not a string.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let model = fields.read("model", Place::string)?;
        let name = fields.read("name", Place::string)?;
        // Details that would not be shown, and settings that clients show along with the model's own.
        for name in ["verbose", "system", "template", "options"] {
            fields.ignore(name);
        }
        let ignored = fields.finish_request()?;
        Ok(Self { model: model.or(name).unwrap_or_default(), ignored })
    }
}

/// Reply to `/api/show`. What the server does not know is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ShowReply {
    /// Always empty: models have no Modelfile.
    pub modelfile: String,
    /// Always empty: models have no parameters of their own.
    pub parameters: String,
    /// Names of the variables that a template in Ollama's language would have. Clients search them.
    pub template: String,
    /// Facts about the model.
    pub details: ModelDetails,
    /// Further facts: `general.architecture`, and for a loaded model `general.context_length`. The same
    /// number has the name of the architecture instead of `general`, too.
    pub model_info: Map<String, Value>,
    /// Abilities of the model: `completion`, `tools`, `thinking` and `embedding`.
    pub capabilities: Vec<String>,
    /// Time at which the model became available, as [`timestamp`](super::timestamp) writes it.
    pub modified_at: String,
}

/// Reply to `/api/version`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionReply {
    /// Version of Ollama whose API the server has.
    pub version: String,
}
