use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::fixture::{app, request, says, send};

#[tokio::test]
async fn what_is_refused() {
    let app = app(says(""));
    let cases = [
        (json!({}), "`model`: this field is required"),
        (json!({"model": "m"}), "`input`: this field is required"),
        (json!({"model": "m", "input": ""}), "`input`: must not be empty"),
        (json!({"model": "m", "input": []}), "`input`: must not be empty"),
        (json!({"model": "m", "input": ["a", ""]}), "`input[1]`: must not be empty"),
        (json!({"model": "m", "input": [[1], []]}), "`input[1]`: must not be empty"),
        (json!({"model": "m", "input": [1, "a"]}), "`input[1]`: expected an integer, found a string"),
        (
            json!({"model": "m", "input": [1, 257]}),
            "`input[1]`: token 257 is not in the vocabulary of 257 tokens",
        ),
        (
            json!({"model": "m", "input": vec!["a"; 2049]}),
            "`input`: 2049 entries are more than the limit of 2048",
        ),
        (
            json!({"model": "m", "input": "a", "encoding_format": "int8"}),
            "`encoding_format`: `int8` is not supported; supported are float and base64",
        ),
        (json!({"model": "m", "input": "a", "dimensions": 0}), "`dimensions`: 0 is outside 1 and up"),
        (
            json!({"model": "m", "input": "a", "pooling": "max"}),
            "`pooling`: `max` is not supported; supported are mean and last",
        ),
        (json!({"model": "m", "input": "a", "task": "x"}), "`task`: unrecognized request argument"),
    ];
    for (body, expected) in cases {
        let answer = send(&app, request(Method::POST, "/v1/embeddings", body.to_string())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        assert_eq!(answer.json()["error"]["message"], expected);
    }
    let unknown = request(Method::POST, "/v1/embeddings", json!({"model": "x", "input": "a"}).to_string());
    assert_eq!(send(&app, unknown).await.status, StatusCode::NOT_FOUND);
}
