//! `POST /v1/rerank` and `POST /v1/score`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use formwork_engine::TextRequest;
use formwork_lm::Ranking;
use formwork_openai::{EmbeddingUsage, RerankRequest, Reranking, Score, ScoreRequest, Scores, Truncation};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, TokenKind, Tokenizer, VocabError};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::answer::Answer;
use crate::app::{App, Served};
use crate::body::JsonBody;
use crate::embeddings::{TOGETHER, failed};
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;

/// Instruction for models that read one, if the request has none. It is that of Qwen3-Reranker's model
/// card.
const INSTRUCTION: &str = "Given a web search query, retrieve relevant passages that answer the query";

pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let request = RerankRequest::from_json(&body)?;
    app.check_ignored(&request.ignored)?;
    let served = app.model(&request.model).await?;
    let names = Names { query: "query".to_owned(), documents: "documents", offset: 0 };
    let (scores, used, request) = scores(&app, &served, request, names).await?;
    let ranked = Reranking::new(served.model.id.clone(), &request, &scores, used);
    Ok(with_ignored(Json(ranked), &request.ignored))
}

/// `POST /v1/score`.
pub(crate) async fn score(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let ScoreRequest { mut first, settings } = ScoreRequest::from_json(&body)?;
    app.check_ignored(&settings.ignored)?;
    let served = app.model(&settings.model).await?;
    let answer = Answer::new("score-", &served.model.id);
    let ignored = settings.ignored.clone();
    let names = |query: String, offset| Names { query, documents: "text_2", offset };
    let scored = if first.len() == 1 {
        let request = RerankRequest { query: first.pop().unwrap_or_default(), ..settings };
        vec![scores(&app, &served, request, names("text_1".to_owned(), 0)).await?]
    } else {
        let RerankRequest { documents, instruction, truncation, .. } = settings;
        // Requests are made as they are scored, since each has the instruction.
        let pairs = first.into_iter().zip(documents).enumerate().map(|(index, (query, document))| {
            let request = RerankRequest {
                query,
                documents: vec![document],
                instruction: instruction.clone(),
                truncation,
                ..RerankRequest::default()
            };
            scores(&app, &served, request, names(format!("text_1[{index}]"), index))
        });
        stream::iter(pairs).buffered(TOGETHER).try_collect::<Vec<_>>().await?
    };
    let tokens = scored.iter().map(|(_, used, _)| used).sum();
    let all = scored.into_iter().flat_map(|(scores, ..)| scores).enumerate();
    let scores = Scores {
        id: answer.id,
        object: "list".to_owned(),
        created: answer.created,
        model: answer.model,
        data: all.map(|(index, score)| Score { index, object: "score".to_owned(), score }).collect(),
        usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
    };
    Ok(with_ignored(Json(scores), &ignored))
}

/// Fields of a request, for errors.
struct Names {
    /// Field of the query.
    query: String,
    /// Field of the documents.
    documents: &'static str,
    /// Index of the first document in this field.
    offset: usize,
}

/// Scores the documents of a request. Returns the scores, the number of tokens that the model read, and
/// the request.
async fn scores(
    app: &App,
    served: &Arc<Served>,
    request: RerankRequest,
    names: Names,
) -> Result<(Vec<f32>, usize, RerankRequest), ApiError> {
    let Names { query, documents, offset } = names;
    let abilities = served.model.engine.abilities();
    let ranking = abilities.ranking.clone().ok_or_else(|| Kind::Unable {
        model: served.model.id.clone(),
        purpose: abilities.describe(),
        task: "score documents",
    })?;
    let of = Arc::clone(served);
    let texts = app.offload(move || {
        let engine = &of.model.engine;
        let encoder =
            Encoder { tokenizer: engine.tokenizer(), ranking: &ranking, context: engine.context_len() };
        let refused = |param: String, source| ApiError::from(Kind::RefusedText { param, source });
        // Each document is read together with the query, so a query that is too long is refused first.
        let tokens = encoder.tokenizer.encode_fragment(&request.query);
        let tokens = tokens.map_err(|source| ApiError::from(Kind::Text { field: "query", source }))?;
        engine.check_text(tokens.len().max(1)).map_err(|source| refused(query, source))?;
        let texts = request.documents.iter().enumerate().map(|(index, document)| {
            let text = encoder.text(&request, document);
            let text = text.map_err(|source| ApiError::from(Kind::Text { field: documents, source }))?;
            let checked = engine.check_text(text.tokens.len());
            checked
                .map_err(|source| refused(format!("{documents}[{}]", offset + index), source))
                .map(|()| text)
        });
        Ok((texts.collect::<Result<Vec<_>, ApiError>>()?, request))
    });
    let (texts, request) = texts.await?;
    let used = texts.iter().map(|text| text.tokens.len()).sum();
    let score = |(index, text)| async move {
        let score = served.model.engine.score(text).await;
        score.map_err(|error| failed(error, &served.model.id, format!("{documents}[{}]", offset + index)))
    };
    let scores = stream::iter(texts.into_iter().enumerate()).map(score).buffered(TOGETHER);
    let scores = scores.try_collect::<Vec<f32>>().await?;
    Ok((scores, used, request))
}

/// Encodes queries and documents in the form that a model reads.
struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    ranking: &'a Ranking,
    /// Maximum number of tokens of a text.
    context: usize,
}

impl Encoder<'_> {
    fn text(&self, request: &RerankRequest, document: &str) -> Result<TextRequest, VocabError> {
        let mut document = document.to_owned();
        if let Some(most) = request.max_tokens_per_doc {
            self.cut(&mut document, most)?;
        }
        let most = match request.truncation {
            Truncation::Refuse => usize::MAX,
            Truncation::ToContext => self.context,
            Truncation::To(most) => most.min(self.context),
        };
        // The text of some tokens may take as many tokens again, so the target always shrinks.
        let mut target = usize::MAX;
        loop {
            let text = self.whole(request, &document)?;
            let excess = text.tokens.len().saturating_sub(most);
            let len = self.tokenizer.encode_fragment(&document)?.len();
            // A document without tokens cannot get shorter. A text that is still too long is refused.
            if excess == 0 || len == 0 || target == 0 {
                return Ok(text);
            }
            target = len.saturating_sub(excess).min(target - target / 8).min(target - 1);
            self.cut(&mut document, target)?;
        }
    }

    /// Cuts off all tokens of a document after the first `most`.
    fn cut(&self, document: &mut String, most: usize) -> Result<(), VocabError> {
        let tokens = self.tokenizer.encode_fragment(document)?;
        if tokens.len() > most {
            String::from_utf8_lossy(&self.tokenizer.decode(&tokens[..most])).trim().clone_into(document);
        }
        Ok(())
    }

    fn whole(&self, request: &RerankRequest, document: &str) -> Result<TextRequest, VocabError> {
        let Ranking { pooling, ref template } = *self.ranking;
        let Some(template) = template else {
            let mut tokens = self.tokenizer.encode_framed(&request.query)?;
            let second = tokens.len();
            tokens.extend(self.tokenizer.encode(document, EncodeOptions::default())?);
            tokens.extend(self.tokenizer.suffix());
            return Ok(TextRequest { tokens, second: Some(second), pooling });
        };
        let values = [
            ("{instruction}", request.instruction.as_deref().unwrap_or(INSTRUCTION)),
            ("{query}", &*request.query),
            ("{document}", document),
        ];
        let tokens = self.filled(template, &values)?;
        Ok(TextRequest { tokens, second: None, pooling })
    }

    /// Encodes a template. Control tokens are recognised in the template, and not in the values.
    fn filled(&self, template: &str, values: &[(&str, &str)]) -> Result<Vec<TokenId>, VocabError> {
        let options = EncodeOptions { special: true, bos: self.tokenizer.add_bos() };
        let template = self.tokenizer.encode(template, options)?;
        let is_control = |id: TokenId| self.tokenizer.vocabulary().kind(id) == TokenKind::Control;
        let mut tokens = Vec::new();
        for part in template.chunk_by(|&a, &b| is_control(a) == is_control(b)) {
            if part.first().is_some_and(|&id| is_control(id)) {
                tokens.extend(part);
            } else {
                let text = String::from_utf8_lossy(&self.tokenizer.decode(part)).into_owned();
                tokens.extend(self.tokenizer.encode_fragment(&fill(&text, values))?);
            }
        }
        Ok(tokens)
    }
}

/// Replaces placeholders by values. Placeholders inside values stay.
fn fill(mut text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    loop {
        let found = values.iter().filter_map(|(name, value)| Some((text.find(name)?, name, value)));
        let Some((at, name, value)) = found.min_by_key(|(at, ..)| *at) else {
            return filled + text;
        };
        filled.push_str(&text[..at]);
        filled.push_str(value);
        text = &text[at + name.len()..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_in_values_stay() {
        let values = [("{query}", "a {document}"), ("{document}", "b {query}")];
        assert_eq!(fill("q={query} d={document}.", &values), "q=a {document} d=b {query}.");
    }
}
