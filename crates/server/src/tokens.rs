//! `POST /tokenize`, `/detokenize` and `/apply-template`.

use axum::Json;
use axum::extract::State;
use formwork_engine::prompt;
use formwork_lm::ChatInput;
use formwork_openai::{
    DetokenizeRequest, Detokenized, RenderedTemplate, TemplateRequest, TokenPiece, TokenizeInput,
    TokenizeRequest, Tokenized, TokenizedIds, TokenizerInfo,
};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer};

use crate::app::{App, Served};
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};

/// `POST /tokenize`.
pub(crate) async fn tokenize(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<Tokenized>, ApiError> {
    let request = TokenizeRequest::from_json(&body)?;
    let served = app.model_or_only(request.model.as_deref()).await?;
    app.offload(move || {
        let ids = served.encode(&request)?;
        let tokenizer = served.model.engine.tokenizer();
        let spelling = |id: TokenId| tokenizer.vocabulary().bytes(id);
        let strings = || ids.iter().map(|&id| String::from_utf8_lossy(spelling(id)).into_owned()).collect();
        let tokens = if request.with_pieces {
            TokenizedIds::Pieces(ids.iter().map(|&id| TokenPiece::new(id.0, spelling(id))).collect())
        } else {
            TokenizedIds::Ids(ids.iter().map(|id| id.0).collect())
        };
        Ok(Json(Tokenized {
            count: ids.len(),
            max_model_len: served.model.engine.context_len(),
            tokens,
            token_strs: request.token_strings.then(strings),
        }))
    })
    .await
}

/// `POST /detokenize`.
pub(crate) async fn detokenize(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<Detokenized>, ApiError> {
    let request = DetokenizeRequest::from_json(&body)?;
    let served = app.model_or_only(request.model.as_deref()).await?;
    app.offload(move || {
        let tokenizer = served.model.engine.tokenizer();
        let ids = check_tokens(&request.tokens, tokenizer, "tokens")?;
        let content = String::from_utf8_lossy(&tokenizer.decode_text(&ids, true)).into_owned();
        Ok(Json(Detokenized { prompt: content.clone(), content }))
    })
    .await
}

/// `GET /tokenizer_info`: the tokens and the template of the only model, in vLLM's form.
pub(crate) async fn info(State(app): State<App>) -> Result<Json<TokenizerInfo>, ApiError> {
    let served = app.model_or_only(None).await?;
    let tokenizer = served.model.engine.tokenizer();
    let vocabulary = tokenizer.vocabulary();
    let spelling = |token: TokenId| String::from_utf8_lossy(vocabulary.bytes(token)).into_owned();
    let eos = tokenizer.eos().or_else(|| vocabulary.ends().first().copied());
    Ok(Json(TokenizerInfo {
        tokenizer_class: "PreTrainedTokenizerFast".to_owned(),
        model_max_length: served.model.engine.context_len(),
        add_bos_token: tokenizer.add_bos(),
        bos_token: tokenizer.bos().map(spelling),
        eos_token: eos.map(spelling),
        pad_token: eos.map(spelling),
        chat_template: served.model.template.source().map(str::to_owned),
    }))
}

/// `POST /apply-template`.
pub(crate) async fn apply_template(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<RenderedTemplate>, ApiError> {
    let request = TemplateRequest::from_json(&body)?;
    let served = app.model_or_only(request.model.as_deref()).await?;
    app.offload(move || Ok(Json(RenderedTemplate { prompt: served.render(&request)? }))).await
}

/// Converts ids to tokens, and checks that they are in the vocabulary.
pub(crate) fn check_tokens(
    ids: &[u32],
    tokenizer: &Tokenizer,
    field: &str,
) -> Result<Vec<TokenId>, ApiError> {
    let limit = tokenizer.vocabulary().len();
    match ids.iter().position(|&id| id as usize >= limit) {
        Some(index) => {
            Err(Kind::TokenOutside { param: format!("{field}[{index}]"), given: ids[index], limit }.into())
        }
        None => Ok(ids.iter().map(|&id| TokenId(id)).collect()),
    }
}

impl Served {
    fn encode(&self, request: &TokenizeRequest) -> Result<Vec<TokenId>, ApiError> {
        let tokenizer = self.model.engine.tokenizer();
        let special = request.parse_special;
        let encode = |text: &str, field, bos| {
            let tokens = tokenizer.encode(text, EncodeOptions { special, bos });
            tokens.map_err(|source| Kind::Text { field, source }.into())
        };
        match &request.input {
            TokenizeInput::Text { text, field, add_special } => {
                encode(text, field, *add_special && tokenizer.add_bos())
            }
            TokenizeInput::Chat { request, add_special } => {
                let text = self.render(request)?;
                if !(special && *add_special) {
                    return encode(&text, "messages", false);
                }
                prompt::encode(tokenizer, &text)
                    .map_err(|source| Kind::Text { field: "messages", source }.into())
            }
        }
    }

    /// Renders the prompt that a chat request with the same fields gets.
    fn render(&self, request: &TemplateRequest) -> Result<String, ApiError> {
        if request.chat.continues {
            return self.prompt_text(&request.chat);
        }
        let input = self.chat_input(&request.chat, &request.chat.tools);
        let input = ChatInput { add_generation_prompt: request.add_generation_prompt, ..input };
        let text = formwork_chat::render(&*self.model.template, &input).map_err(Kind::Template)?;
        Ok(self.format.without_begun_thoughts(text, &input))
    }
}
