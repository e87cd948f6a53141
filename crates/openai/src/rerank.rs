//! `/v1/rerank`: scores documents by their relevance for a query. The form is that of Jina, Cohere, vLLM
//! and llama.cpp, which agree on the fields below.

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place, read_model, take_without_effect};
use crate::{EmbeddingUsage, IgnoredFields, RequestError, Truncation};

/// Maximum number of documents in a request.
const MAX_DOCUMENTS: usize = 2048;

/// Request for the relevance of documents for a query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RerankRequest {
    /// Name under which the server offers the model.
    pub model: String,
    /// The query.
    pub query: String,
    /// Texts of the documents, at least one.
    pub documents: Vec<String>,
    /// Maximum number of results. The default is the number of documents.
    pub top_n: Option<usize>,
    /// True if results contain their documents.
    pub return_documents: bool,
    /// Instruction for a model that reads one. An extension.
    pub instruction: Option<String>,
    /// Maximum number of tokens of a document. The rest of the document is cut off.
    pub max_tokens_per_doc: Option<usize>,
    /// Treatment of documents that do not fit the context beside the query.
    pub truncation: Truncation,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

impl RerankRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or
    /// value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let mut request = Self {
            model: read_model(&mut fields)?,
            query: fields.required("query")?.non_empty_string()?,
            documents: read_documents(fields.required("documents")?, "documents")?,
            top_n: fields.read("top_n", Place::positive)?,
            return_documents: fields.read("return_documents", Place::bool)?.unwrap_or(false),
            instruction: fields.read("instruction", Place::string)?,
            max_tokens_per_doc: fields.read("max_tokens_per_doc", Place::positive)?,
            truncation: Truncation::read(&mut fields)?,
            ignored: IgnoredFields::default(),
        };
        take_without_effect(&mut fields);
        request.ignored = fields.finish_request()?;
        Ok(request)
    }
}

/// Request to `/v1/score`, which scores pairs of texts in the form of vLLM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScoreRequest {
    /// First texts: one, or as many as second texts.
    pub first: Vec<String>,
    /// Settings of all pairs. The documents are the second texts, and the query is empty.
    pub settings: RerankRequest,
}

impl ScoreRequest {
    /// Parses the body of a request. One first text is scored with each of the second texts. Several
    /// first texts are scored with the second texts in the same places.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or
    /// value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let model = read_model(&mut fields)?;
        let (_, first) = read_texts(&mut fields, ["text_1", "queries", "data_1"])?;
        let (field, documents) = read_texts(&mut fields, ["text_2", "documents", "data_2"])?;
        if first.len() > 1 && first.len() != documents.len() {
            let problem = Problem::Count { given: documents.len(), expected: first.len() };
            return Err(RequestError::field(field, problem));
        }
        let mut settings = RerankRequest {
            model,
            query: String::new(),
            documents,
            top_n: None,
            return_documents: false,
            instruction: fields.read("instruction", Place::string)?,
            max_tokens_per_doc: None,
            truncation: Truncation::read(&mut fields)?,
            ignored: IgnoredFields::default(),
        };
        take_without_effect(&mut fields);
        settings.ignored = fields.finish_request()?;
        Ok(Self { first, settings })
    }
}

/// Parses a text or an array of texts, whose field has one of several names. Returns the name too.
fn read_texts(
    fields: &mut Fields,
    names: [&'static str; 3],
) -> Result<(&'static str, Vec<String>), RequestError> {
    for name in names {
        let Some(at) = fields.take(name) else { continue };
        let texts = if at.is_string() { vec![at.string()?] } else { read_documents(at, name)? };
        return Ok((name, texts));
    }
    Err(RequestError::field(names[0], Problem::Missing))
}

/// Response to a request for scores.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scores {
    /// Unique id that starts with `score-`.
    pub id: String,
    /// Always `list`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Name under which the server offers the model.
    pub model: String,
    /// Scores of the pairs, in the order of the request.
    pub data: Vec<Score>,
    /// Token counts of all texts that the model read.
    pub usage: EmbeddingUsage,
}

/// Score of one pair of texts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Score {
    /// Index of the pair, starting at 0.
    pub index: usize,
    /// Always `score`.
    pub object: String,
    /// Relevance of the second text for the first. Most models compute a probability.
    pub score: f32,
}

/// Parses an array of texts, or of objects with the member `text`.
fn read_documents(at: Place, field: &'static str) -> Result<Vec<String>, RequestError> {
    let empty = at.error(Problem::Empty);
    let items = at.list("an array of documents")?;
    if items.is_empty() {
        return Err(empty);
    }
    if items.len() > MAX_DOCUMENTS {
        let problem = Problem::TooMany { given: items.len(), limit: MAX_DOCUMENTS };
        return Err(RequestError::field(field, problem));
    }
    let read = |item: Place| {
        if item.is_string() {
            return item.string();
        }
        let mut fields = item.fields()?;
        let text = fields.required("text")?.string()?;
        fields.finish()?;
        Ok(text)
    };
    items.into_iter().map(read).collect()
}

/// Response to a request for relevance.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reranking {
    /// Always `list`.
    pub object: String,
    /// Name under which the server offers the model.
    pub model: String,
    /// Scores of documents, the most relevant first.
    pub results: Vec<RerankResult>,
    /// Token counts of all texts that the model read.
    pub usage: EmbeddingUsage,
}

/// Score of one document.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RerankResult {
    /// Index of the document in the request, starting at 0.
    pub index: usize,
    /// Relevance of the document. Most models compute a probability.
    pub relevance_score: f32,
    /// The document, if the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<RerankedDocument>,
}

/// A document in a response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RerankedDocument {
    /// Text of the document.
    pub text: String,
}

impl Reranking {
    /// Creates the response for `scores`, one for each document of the request. `tokens` is the number
    /// of tokens of all texts that the model read.
    pub fn new(model: String, request: &RerankRequest, scores: &[f32], tokens: usize) -> Self {
        let document = |index: usize| {
            request.return_documents.then(|| RerankedDocument { text: request.documents[index].clone() })
        };
        let mut order: Vec<usize> = (0..scores.len()).collect();
        // The sort is stable, so equal scores keep the order of the request.
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        order.truncate(request.top_n.unwrap_or(usize::MAX));
        let result =
            |index: usize| RerankResult { index, relevance_score: scores[index], document: document(index) };
        Self {
            object: "list".to_owned(),
            model,
            results: order.into_iter().map(result).collect(),
            usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
        }
    }
}
