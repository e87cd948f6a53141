use axum::http::{Method, StatusCode};
use formwork_lm::{
    Abilities, Batch, EmbeddingProfile, LanguageModel, Logits, ModelError, Pooling, Ranking, ScriptedModel,
    SequenceId,
};
use formwork_server::App;
use formwork_vocab::TokenId;
use serde_json::{Value, json};

use crate::fixture::{CONTEXT, END, app, request, says, send};

/// Creates a model whose hidden states are one-hot vectors of the last token.
pub(crate) fn embeds() -> ScriptedModel {
    ScriptedModel::new(END + 1, CONTEXT, |tokens, row| row[tokens.last().unwrap().0 as usize] = 1.0)
}

async fn vectors(app: &App, fields: &Value) -> Value {
    let mut body = fields.clone();
    body["model"] = "m".into();
    let answer = send(app, request(Method::POST, "/v1/embeddings", body.to_string())).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

/// Returns the non-zero elements of a vector with their indices.
fn places(embedding: &Value) -> Vec<(usize, f64)> {
    let numbers = embedding.as_array().unwrap().iter().map(|number| number.as_f64().unwrap());
    numbers.enumerate().filter(|(_, number)| *number != 0.0).collect()
}

#[tokio::test]
async fn texts_become_vectors_of_length_one() {
    let app = app(embeds());
    // The input has two tokens "a" and one "b", so the elements are 2/√5 and 1/√5.
    let answer = vectors(&app, &json!({"input": "aab"})).await;
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("m")));
    assert_eq!(answer["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
    let [(97, a), (98, b)] = places(&answer["data"][0]["embedding"])[..] else { panic!("{answer}") };
    assert!((a - 2.0 / 5f64.sqrt()).abs() < 1e-6 && (b - 1.0 / 5f64.sqrt()).abs() < 1e-6);
    let last = vectors(&app, &json!({"input": "aab", "pooling": "last", "dimensions": END + 1})).await;
    assert_eq!(places(&last["data"][0]["embedding"]), [(98, 1.0)]);
}

#[tokio::test]
async fn inputs_of_every_form_come_in_order() {
    let app = app(embeds());
    let last = |answer: &Value| -> Vec<usize> {
        let data = answer["data"].as_array().unwrap();
        assert!(data.iter().enumerate().all(|(index, item)| item["index"] == index));
        data.iter().map(|item| places(&item["embedding"])[0].0).collect()
    };
    let letters: Vec<String> = ('a'..='z').map(String::from).collect();
    let answer = vectors(&app, &json!({"input": letters})).await;
    assert_eq!(last(&answer), (97..123).collect::<Vec<_>>());
    assert_eq!(answer["usage"]["total_tokens"], 26);
    assert_eq!(last(&vectors(&app, &json!({"input": [97]})).await), [97]);
    assert_eq!(last(&vectors(&app, &json!({"input": [[98], [97], "c"]})).await), [98, 97, 99]);
    let encoded = vectors(&app, &json!({"input": "a", "encoding_format": "base64"})).await;
    let text = encoded["data"][0]["embedding"].as_str().unwrap();
    // 97 zeros of 4 bytes are 388 bytes. The first 387 bytes encode to 516 letters; the next
    // letters encode the 1 (00 00 80 3f).
    assert_eq!(text.len(), (257usize * 4).div_ceil(3) * 4);
    assert_eq!((&text[..516], &text[516..524]), (&*"A".repeat(516), "AAAAgD8A"));
}

#[tokio::test]
async fn reports_unusable_inputs() {
    let app = app(embeds());
    for (fields, expected) in [
        (
            json!({"input": "x".repeat(CONTEXT + 1)}),
            "input: the text has 401 tokens, more than the model's context length of 400",
        ),
        (
            json!({"input": "a", "dimensions": 300}),
            "dimensions: `dimensions` is 300; the vectors of this model have 257 dimensions",
        ),
    ] {
        let mut body = fields;
        body["model"] = "m".into();
        let answer = send(&app, request(Method::POST, "/v1/embeddings", body.to_string())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        let error = &answer.json()["error"];
        let [param, message] = ["param", "message"].map(|key| error[key].as_str().unwrap());
        assert_eq!(format!("{param}: {message}"), expected);
    }
}

/// A model that does not expose its hidden states.
struct Hides(ScriptedModel);

impl LanguageModel for Hides {
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    fn context_len(&self) -> usize {
        self.0.context_len()
    }

    fn open(&mut self) -> SequenceId {
        self.0.open()
    }

    fn close(&mut self, sequence: SequenceId) {
        self.0.close(sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.0.truncate(sequence, len)
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        self.0.forward(batch)
    }
}

#[tokio::test]
async fn a_model_may_have_no_embeddings() {
    let body = json!({"model": "m", "input": "a"}).to_string();
    let answer = send(&app(Hides(embeds())), request(Method::POST, "/v1/embeddings", body)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let expected = json!({"error": {
        "message": "model `m` does not support embeddings", "type": "invalid_request_error", "param": "model",
        "code": null,
    }});
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn rejects_invalid_requests() {
    let app = app(says(""));
    let cases = [
        (json!({}), "`input`: this field is required"),
        (json!({"model": "m"}), "`input`: this field is required"),
        (json!({"model": "m", "input": ""}), "`input`: must not be empty"),
        (json!({"model": "m", "input": []}), "`input`: must not be empty"),
        (json!({"model": "m", "input": ["a", ""]}), "`input[1]`: must not be empty"),
        (json!({"model": "m", "input": [[1], []]}), "`input[1]`: must not be empty"),
        (json!({"model": "m", "input": [1, "a"]}), "`input[1]`: expected an integer, found a string"),
        (
            json!({"model": "m", "input": [1, 257]}),
            "`input[1]`: token 257 is out of range (vocabulary size 257)",
        ),
        (json!({"model": "m", "input": vec!["a"; 2049]}), "`input`: 2049 entries exceed the limit of 2048"),
        (
            json!({"model": "m", "input": "a", "encoding_format": "int8"}),
            "`encoding_format`: unsupported value `int8`; supported values: float and base64",
        ),
        (
            json!({"model": "m", "input": "a", "dimensions": 0}),
            "`dimensions`: 0 is out of range; expected at least 1",
        ),
        (
            json!({"model": "m", "input": "a", "pooling": "max"}),
            "`pooling`: unsupported value `max`; supported values: mean, cls and last",
        ),
        (
            json!({"model": "m", "input": "a", "task": "x"}),
            "`task`: only null is supported here; use `prompt_name` or `input_type`",
        ),
    ];
    for (body, expected) in cases {
        let answer = send(&app, request(Method::POST, "/v1/embeddings", body.to_string())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        assert_eq!(answer.json()["error"]["message"], expected);
    }
    let unknown = request(Method::POST, "/v1/embeddings", json!({"model": "x", "input": "a"}).to_string());
    assert_eq!(send(&app, unknown).await.status, StatusCode::NOT_FOUND);
}

/// A model for embeddings or rankings. Its hidden states are one-hot vectors of the last token.
pub(crate) struct Purposeful(pub(crate) ScriptedModel, pub(crate) Abilities);

impl LanguageModel for Purposeful {
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    fn context_len(&self) -> usize {
        self.0.context_len()
    }

    fn open(&mut self) -> SequenceId {
        self.0.open()
    }

    fn close(&mut self, sequence: SequenceId) {
        self.0.close(sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.0.truncate(sequence, len)
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        self.0.forward(batch)
    }

    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        self.0.hidden_states(sequence, tokens)
    }

    fn abilities(&self) -> Abilities {
        self.1.clone()
    }

    /// Halves the vector.
    fn project(&self, pooled: Vec<f32>) -> Vec<f32> {
        pooled.into_iter().map(|x| x / 2.0).collect()
    }

    /// Returns the share of the letter "x".
    fn score(&self, pooled: &[f32]) -> Result<f32, ModelError> {
        Ok(pooled[usize::from(b'x')])
    }
}

fn profile() -> EmbeddingProfile {
    let prompts = [("query", "xx"), ("document", "")];
    EmbeddingProfile {
        normalizes: false,
        width: Some(END + 1),
        prompts: prompts.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
        ..EmbeddingProfile::default()
    }
}

#[tokio::test]
async fn the_model_states_prompts_and_normalisation() {
    let abilities = Abilities { generates: false, embedding: Some(profile()), ranking: None };
    let app = app(Purposeful(embeds(), abilities));
    let answer = vectors(&app, &json!({"input": "aabb", "input_type": "document"})).await;
    assert_eq!(places(&answer["data"][0]["embedding"]), [(97, 0.25), (98, 0.25)]);
    let answer = vectors(&app, &json!({"input": "aa", "prompt_name": "query"})).await;
    assert_eq!(places(&answer["data"][0]["embedding"]), [(97, 0.25), (120, 0.25)]);
    assert_eq!(answer["usage"]["prompt_tokens"], 4);
    let fields = json!({"input": "aabb", "dimensions": 98, "normalize": true});
    assert_eq!(places(&vectors(&app, &fields).await["data"][0]["embedding"]), [(97, 1.0)]);
    let fields = json!({"input": "aabb", "truncate_prompt_tokens": 2, "pooling": "last"});
    assert_eq!(places(&vectors(&app, &fields).await["data"][0]["embedding"]), [(97, 0.5)]);
    let long = "x".repeat(CONTEXT + 1);
    let answer = vectors(&app, &json!({"input": ["a", long], "truncate": true})).await;
    assert_eq!(answer["usage"]["prompt_tokens"], 1 + CONTEXT);
    for (path, body, param, message) in [
        (
            "/v1/embeddings",
            json!({"input": ["a", long]}),
            "input[1]",
            "the text has 401 tokens, more than the model's context length of 400",
        ),
        (
            "/v1/embeddings",
            json!({"input": "a", "prompt_name": "task"}),
            "prompt_name",
            "unknown prompt `task`; the prompts of this model: document, query",
        ),
        (
            "/v1/rerank",
            json!({"query": "a", "documents": ["b"]}),
            "model",
            "model `m` only computes embeddings, and cannot score documents",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "Hi"}]}),
            "model",
            "this model only computes embeddings, and cannot generate text",
        ),
        (
            "/v1/completions",
            json!({"prompt": "Hi"}),
            "model",
            "this model only computes embeddings, and cannot generate text",
        ),
    ] {
        let mut body = body;
        body["model"] = "m".into();
        let answer = send(&app, request(Method::POST, path, body.to_string())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        let error = &answer.json()["error"];
        assert_eq!((&error["param"], &error["message"]), (&json!(param), &json!(message)));
    }
}

#[tokio::test]
async fn documents_come_in_the_order_of_their_scores() {
    let template = Some("{query}:{document}".to_owned());
    for (template, tokens) in [(template, [4, 5, 5]), (None, [3, 4, 4])] {
        let ranking = Some(Ranking { pooling: Pooling::Mean, template });
        let abilities = Abilities { generates: false, embedding: None, ranking };
        let app = app(Purposeful(embeds(), abilities));
        let fields = json!({
            "model": "m", "query": "q", "documents": ["ax", {"text": "bbx"}, "xxa"], "top_n": 2,
            "return_documents": true,
        });
        let answer = send(&app, request(Method::POST, "/v1/rerank", fields.to_string())).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let answer = answer.json();
        let results = answer["results"].as_array().unwrap();
        let order: Vec<&Value> = results.iter().map(|result| &result["index"]).collect();
        assert_eq!(order, [2, 0]);
        let score = results[0]["relevance_score"].as_f64().unwrap();
        assert!((score - 2.0 / f64::from(tokens[2])).abs() < 1e-6, "{score}");
        assert_eq!(results[1]["document"], json!({"text": "ax"}));
        assert_eq!(answer["usage"]["total_tokens"], tokens.iter().sum::<i32>());
        let fields = json!({
            "model": "m", "query": "q", "documents": ["xxaa"], "max_tokens_per_doc": 2,
        });
        let answer = send(&app, request(Method::POST, "/rerank", fields.to_string())).await.json();
        assert_eq!(answer["usage"]["total_tokens"], tokens[0]);
        let fields = json!({"model": "m", "query": "q", "documents": ["a", "x".repeat(CONTEXT)]});
        let answer = send(&app, request(Method::POST, "/v2/rerank", fields.to_string())).await.json();
        assert_eq!(answer["error"]["param"], "documents[1]");
        let fields = json!({"model": "m", "input": "a"});
        let answer = send(&app, request(Method::POST, "/v1/embeddings", fields.to_string())).await;
        let message = "model `m` only scores documents for a query, and cannot compute embeddings";
        assert_eq!(answer.json()["error"]["message"], message);
    }
}

#[tokio::test]
async fn pairs_have_scores_in_their_order() {
    let ranking = Some(Ranking { pooling: Pooling::Mean, template: Some("{query}{document}".to_owned()) });
    let app = app(Purposeful(embeds(), Abilities { generates: false, embedding: None, ranking }));
    for (first, second, expected) in [
        (json!("a"), json!("x"), vec![0.5]),
        (json!("a"), json!(["b", "x", "xxx"]), vec![0.0, 0.5, 0.75]),
        (json!(["x", "b"]), json!(["x", "x"]), vec![1.0, 0.5]),
    ] {
        for (names, path) in [(["text_1", "text_2"], "/v1/score"), (["queries", "documents"], "/score")] {
            let body = json!({"model": "m", names[0]: first, names[1]: second});
            let answer = send(&app, request(Method::POST, path, body.to_string())).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
            let answer = answer.json();
            let scores = answer["data"].as_array().unwrap().iter().enumerate();
            let scores = scores.map(|(index, score)| {
                assert_eq!((&score["index"], &score["object"]), (&json!(index), &json!("score")));
                score["score"].as_f64().unwrap()
            });
            assert_eq!(scores.collect::<Vec<_>>(), expected);
            assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() >= 2);
        }
    }
    for (body, param) in [
        (json!({"text_2": "a"}), "text_1"),
        (json!({"text_1": ["a", "b"], "text_2": ["c"]}), "text_2"),
        (json!({"text_1": "a", "documents": []}), "documents"),
    ] {
        let answer = send(&app, request(Method::POST, "/v1/score", body.to_string())).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["param"]),
            (StatusCode::BAD_REQUEST, &json!(param))
        );
    }
}
