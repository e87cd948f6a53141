use serde::{Deserialize, Serialize};

/// A model that is served.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Model {
    /// The name that requests give.
    pub id: String,
    /// Always `model`.
    pub object: String,
    /// When it was made available, in seconds since 1970.
    pub created: u64,
    /// Who serves it.
    pub owned_by: String,
}

impl Model {
    /// The model `id`, available since `created` (seconds since 1970).
    pub fn new(id: impl Into<String>, created: u64) -> Self {
        Self { id: id.into(), object: "model".to_owned(), created, owned_by: "formwork".to_owned() }
    }
}

/// All models that are served.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModelList {
    /// Always `list`.
    pub object: String,
    /// The models.
    pub data: Vec<Model>,
}

impl ModelList {
    /// The list of `data`.
    pub fn new(data: Vec<Model>) -> Self {
        Self { object: "list".to_owned(), data }
    }
}
