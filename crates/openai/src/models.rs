use serde::{Deserialize, Serialize};

/// Model that the server offers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Model {
    /// Name of the model in requests.
    pub id: String,
    /// Always `model`.
    pub object: String,
    /// Time when the model became available, in seconds since 1970.
    pub created: u64,
    /// Owner of the model: always `formwork`.
    pub owned_by: String,
    /// Model that is computed with an adapter. `None` for a model without an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Same as `root`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Maximum number of tokens of a prompt and its output, under vLLM's name. Absent for a model that
    /// is not loaded. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<usize>,
    /// Same as `max_model_len`, under the name of hosts. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<usize>,
    /// Facts about a loaded model, in llama.cpp's form. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<ModelMeta>,
}

/// Facts about a loaded model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModelMeta {
    /// Maximum number of tokens of a prompt and its output.
    pub n_ctx: usize,
    /// Number of tokens of the vocabulary.
    pub n_vocab: usize,
    /// Estimated memory use in bytes. `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Name of the architecture, as in GGUF files. `None` if it is not known. llama.cpp does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}

impl Model {
    /// Creates the entry of the model called `id`. `created` is the time since which it is
    /// available, in seconds since 1970.
    pub fn new(id: impl Into<String>, created: u64) -> Self {
        Self {
            id: id.into(),
            object: "model".to_owned(),
            created,
            owned_by: "formwork".to_owned(),
            root: None,
            parent: None,
            max_model_len: None,
            context_length: None,
            meta: None,
        }
    }

    /// Returns the entry with the facts about a loaded model.
    #[must_use]
    pub fn with_meta(self, meta: ModelMeta) -> Self {
        let context = Some(meta.n_ctx);
        Self { max_model_len: context, context_length: context, meta: Some(meta), ..self }
    }

    /// Returns the entry of an adapter of the model `parent`.
    #[must_use]
    pub fn with_parent(self, parent: impl Into<String>) -> Self {
        let parent = parent.into();
        Self { root: Some(parent.clone()), parent: Some(parent), ..self }
    }
}

/// List of all models that the server offers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModelList {
    /// Always `list`.
    pub object: String,
    /// The models.
    pub data: Vec<Model>,
}

impl ModelList {
    /// Creates a list of models.
    pub fn new(data: Vec<Model>) -> Self {
        Self { object: "list".to_owned(), data }
    }
}
