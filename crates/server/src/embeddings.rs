//! `POST /v1/embeddings`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use formwork_engine::{EmbedError, Pooling};
use formwork_lm::EmbeddingProfile;
use formwork_openai::{
    EmbeddingInput, EmbeddingList, EmbeddingPooling, EmbeddingPrompt, EmbeddingRequest, Truncation,
};
use formwork_vocab::TokenId;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::app::{App, Served};
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
use crate::tokens::check_tokens;

/// Maximum number of texts of one request in the engine's queue, which reads short ones in one pass.
pub(crate) const TOGETHER: usize = 16;

pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let request = EmbeddingRequest::from_json(&body)?;
    app.check_ignored(&request.ignored)?;
    let served = app.model(&request.model).await?;
    let (format, ignored) = (request.format, request.ignored.clone());
    let (vectors, used) = embed(&app, &served, request).await?;
    let list = EmbeddingList::new(served.model.id.clone(), vectors, format, used);
    Ok(with_ignored(Json(list), &ignored))
}

/// Returns the vectors of a request's texts, and the number of tokens of all texts.
pub(crate) async fn embed(
    app: &App,
    served: &Arc<Served>,
    request: EmbeddingRequest,
) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
    let EmbeddingRequest { input, dimensions, pooling, normalize, prompt, truncation, .. } = request;
    let abilities = served.model.engine.abilities();
    let profile = abilities.embedding.clone().ok_or_else(|| Kind::Unable {
        model: served.model.id.clone(),
        purpose: abilities.describe(),
        task: "compute embeddings",
    })?;
    if let (Some(given), Some(width)) = (dimensions, profile.width) {
        check_width(given, width)?;
    }
    let is_alone = input.len() == 1;
    let (of, own) = (Arc::clone(served), profile.clone());
    let texts = app.offload(move || {
        let prefix = prompt_text(&own, &prompt)?;
        let tokens = |input: &EmbeddingInput| of.tokens(input, &own, prefix);
        input.iter().map(tokens).collect::<Result<Vec<_>, _>>()
    });
    let mut texts: Vec<Vec<TokenId>> = texts.await?;
    for (index, text) in texts.iter_mut().enumerate() {
        served.truncate(text, truncation);
        let checked = served.model.engine.check_text(text.len());
        let param = if is_alone { "input".to_owned() } else { format!("input[{index}]") };
        checked.map_err(|source| Kind::RefusedText { param, source })?;
    }
    let used = texts.iter().map(Vec::len).sum();
    let pooling = match pooling {
        None => profile.pooling,
        Some(EmbeddingPooling::Mean) => Pooling::Mean,
        Some(EmbeddingPooling::First) => Pooling::First,
        Some(EmbeddingPooling::Last) => Pooling::Last,
    };
    let embed = |(index, tokens)| async move {
        let vector = served.model.engine.embed(tokens, pooling).await;
        let param = || if is_alone { "input".to_owned() } else { format!("input[{index}]") };
        vector.map_err(|error| failed(error, &served.model.id, param()))
    };
    let vectors = stream::iter(texts.into_iter().enumerate()).map(embed).buffered(TOGETHER);
    let mut vectors = vectors.try_collect::<Vec<_>>().await?;
    for vector in &mut vectors {
        if let Some(dimensions) = dimensions {
            check_width(dimensions, vector.len())?;
            vector.truncate(dimensions);
        }
        if normalize.unwrap_or(profile.normalizes || dimensions.is_some()) {
            scale_to_one(vector);
        }
    }
    Ok((vectors, used))
}

/// Returns the text that goes before each input.
fn prompt_text<'a>(profile: &'a EmbeddingProfile, prompt: &EmbeddingPrompt) -> Result<&'a str, ApiError> {
    let text = |name: &str| profile.prompts.get(name).map(String::as_str);
    let unknown = |param, given: &str| {
        let known: Vec<&str> = profile.prompts.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ApiError::from(Kind::Prompts { param, given: given.to_owned(), known })
    };
    match prompt {
        EmbeddingPrompt::Default => Ok(profile.default_prompt.as_deref().and_then(text).unwrap_or_default()),
        EmbeddingPrompt::Named(name) => text(name).ok_or_else(|| unknown("prompt_name", name)),
        EmbeddingPrompt::Kind(kind) => {
            // Names in use for the two sides of a search. A model without a prompt for them needs none.
            let usual: &[&str] = match &**kind {
                "query" | "search_query" => &["query", "search_query"],
                "document" | "passage" | "search_document" => &["document", "passage", "search_document"],
                _ => &[],
            };
            if let Some(text) = usual.iter().find_map(|name| text(name)) {
                return Ok(text);
            }
            if !usual.is_empty() {
                return Ok("");
            }
            let own = profile.prompts.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind));
            own.map(|(_, text)| text.as_str()).ok_or_else(|| unknown("input_type", kind))
        }
    }
}

impl Served {
    fn tokens(
        &self,
        input: &EmbeddingInput,
        profile: &EmbeddingProfile,
        prefix: &str,
    ) -> Result<Vec<TokenId>, ApiError> {
        let tokenizer = self.model.engine.tokenizer();
        match input {
            EmbeddingInput::Tokens(ids) => check_tokens(ids, tokenizer, "input"),
            EmbeddingInput::Text(text) => {
                let mut text = format!("{prefix}{text}");
                if profile.lowercases {
                    text = text.to_lowercase();
                }
                let tokens = tokenizer.encode_framed(&text);
                tokens.map_err(|source| Kind::Text { field: "input", source }.into())
            }
        }
    }

    /// Cuts off the end of a text that is too long, except the token that the tokenizer puts last.
    pub(crate) fn truncate(&self, text: &mut Vec<TokenId>, truncation: Truncation) {
        let context = self.model.engine.context_len();
        let most = match truncation {
            Truncation::Refuse => return,
            Truncation::ToContext => context,
            Truncation::To(most) => most.min(context),
        };
        if text.len() > most {
            let suffix = self.model.engine.tokenizer().suffix().filter(|last| text.last() == Some(last));
            text.truncate(most.saturating_sub(usize::from(suffix.is_some())));
            text.extend(suffix);
        }
    }
}

fn check_width(given: usize, width: usize) -> Result<(), ApiError> {
    if given > width { Err(Kind::Dimensions { given, width }.into()) } else { Ok(()) }
}

/// Scales a vector to length 1, as in OpenAI's API. A zero vector stays unchanged.
fn scale_to_one(vector: &mut [f32]) {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        for value in vector {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}

/// Converts the error of a text, which is the field `param` of the request.
pub(crate) fn failed(error: EmbedError, model: &str, param: String) -> ApiError {
    match error {
        EmbedError::Refused(source) if source.is_busy() => Kind::Busy(source),
        EmbedError::Refused(source) if source.is_stopped() => Kind::Stopped(source),
        EmbedError::Refused(source) => Kind::RefusedText { param, source },
        EmbedError::Failed(source) if source.is_unsupported() => {
            Kind::NoEmbeddings { model: model.to_owned() }
        }
        EmbedError::Failed(source) => Kind::Generation(source),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp, reason = "these lengths have no rounding")]
    fn vectors_have_length_one() {
        let mut vector = [3.0, -4.0];
        scale_to_one(&mut vector);
        assert_eq!(vector, [0.6, -0.8]);
        let mut nothing = [0.0, 0.0];
        scale_to_one(&mut nothing);
        assert_eq!(nothing, [0.0, 0.0]);
        // The squares of these values overflow `f32`.
        let scale = 2f32.powi(100);
        let mut large = [3.0 * scale, 4.0 * scale];
        scale_to_one(&mut large);
        assert_eq!(large, [0.6, 0.8]);
    }

    #[test]
    fn accepts_widths_up_to_the_own() {
        assert!(check_width(2, 4).is_ok() && check_width(4, 4).is_ok());
        let error = check_width(5, 4).unwrap_err();
        assert_eq!(error.to_string(), "`dimensions` is 5; the vectors of this model have 4 dimensions");
    }

    #[test]
    fn prompts_are_chosen_by_name_and_by_kind() {
        let prompts = [("query", "q: "), ("Clustering", "c: ")];
        let profile = EmbeddingProfile {
            prompts: prompts.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
            default_prompt: Some("Clustering".to_owned()),
            ..EmbeddingProfile::default()
        };
        let named = |name: &str| prompt_text(&profile, &EmbeddingPrompt::Named(name.to_owned()));
        let kind = |kind: &str| prompt_text(&profile, &EmbeddingPrompt::Kind(kind.to_owned()));
        assert_eq!(prompt_text(&profile, &EmbeddingPrompt::Default).unwrap(), "c: ");
        assert_eq!(named("query").unwrap(), "q: ");
        for (given, expected) in
            [("query", "q: "), ("search_query", "q: "), ("document", ""), ("clustering", "c: ")]
        {
            assert_eq!(kind(given).unwrap(), expected);
        }
        let error = named("passage").unwrap_err().to_string();
        assert_eq!(error, "unknown prompt `passage`; the prompts of this model: Clustering, query");
        assert!(kind("classification").is_err());
    }
}
