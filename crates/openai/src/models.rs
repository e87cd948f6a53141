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
        }
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
