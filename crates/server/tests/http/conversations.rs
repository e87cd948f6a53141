//! `/v1/conversations`, and responses that belong to one.

use formwork_server::StoreLimits;
use serde_json::json;

use crate::fixture::get;
use crate::stored_responses::{app, delete, id, ok, post, prompt, refusal, respond, stream, with_limits};

#[tokio::test]
async fn a_conversation_collects_the_items_of_responses() {
    let (app, template) = app();
    let items = json!([{"role": "user", "content": "Zero?"}, {"role": "assistant", "content": "No."}]);
    let body = json!({"items": items, "metadata": {"topic": "a"}});
    let conversation = ok(&post(&app, "/v1/conversations", &body).await);
    let path = format!("/v1/conversations/{}", id(&conversation));
    assert_eq!(
        (&conversation["object"], &conversation["metadata"]),
        (&json!("conversation"), &json!({"topic": "a"}))
    );
    assert!(conversation["created_at"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(ok(&get(&app, &path).await), conversation);

    let whole = respond(&app, &json!({"input": "One?", "conversation": id(&conversation)})).await;
    assert_eq!(prompt(&template), "user: Zero?\nassistant: No.\nuser: One?\nassistant:");
    assert_eq!(whole["conversation"], json!({"id": id(&conversation)}));
    let body = json!({"input": "Two?", "conversation": {"id": id(&conversation)}, "store": false});
    let streamed = stream(&app, &body).await.pop().unwrap()["response"].take();
    assert_eq!(
        prompt(&template),
        "user: Zero?\nassistant: No.\nuser: One?\nassistant: Yes.\nuser: Two?\nassistant:"
    );
    assert_eq!((&streamed["store"], &streamed["conversation"]), (&json!(false), &whole["conversation"]));

    let list = async || ok(&get(&app, &format!("{path}/items?order=asc")).await);
    let listed = list().await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 6);
    assert_eq!((&listed["data"][3], &listed["data"][5]), (&whole["output"][0], &streamed["output"][0]));
    // A response of a conversation can be continued on its own.
    respond(&app, &json!({"input": "Else?", "previous_response_id": id(&whole)})).await;
    assert_eq!(
        prompt(&template),
        "user: Zero?\nassistant: No.\nuser: One?\nassistant: Yes.\nuser: Else?\nassistant:"
    );

    let added = json!({"items": [{"role": "system", "content": "Rule."}, {"type": "item_reference", "id": listed["data"][0]["id"]}]});
    let added = ok(&post(&app, &format!("{path}/items"), &added).await);
    assert_eq!((&added["object"], &added["has_more"]), (&json!("list"), &json!(false)));
    assert_eq!(added["data"][1], listed["data"][0]);
    assert_eq!(list().await["data"].as_array().unwrap().len(), 8);
    let item = format!("{path}/items/{}", added["first_id"].as_str().unwrap());
    assert_eq!(ok(&get(&app, &item).await), added["data"][0]);
    assert_eq!(ok(&delete(&app, &item).await), conversation);
    for answer in [get(&app, &item).await, delete(&app, &item).await] {
        assert_eq!(refusal(&answer).0, 404);
        assert_eq!(answer.json()["error"]["code"], "item_not_found");
    }
    assert_eq!(list().await["data"].as_array().unwrap().len(), 7);

    let changed = ok(&post(&app, &path, &json!({"metadata": {"topic": "b"}})).await);
    assert_eq!((id(&changed), &changed["metadata"]), (id(&conversation), &json!({"topic": "b"})));
    let deleted = ok(&delete(&app, &path).await);
    assert_eq!(deleted, json!({"id": id(&conversation), "object": "conversation.deleted", "deleted": true}));
    for answer in [
        get(&app, &path).await,
        delete(&app, &path).await,
        delete(&app, &item).await,
        get(&app, &format!("{path}/items")).await,
        post(&app, &path, &json!({"metadata": {}})).await,
        post(&app, &format!("{path}/items"), &json!({"items": [{"role": "user", "content": "a"}]})).await,
        post(&app, "/v1/responses", &json!({"input": "One?", "conversation": id(&conversation)})).await,
    ] {
        let (status, code, message) = refusal(&answer);
        assert_eq!((status, code), (404, json!("conversation_not_found")), "{message}");
    }
}

#[tokio::test]
async fn invalid_conversations_are_refused() {
    let (app, _) = app();
    let conversation = ok(&post(&app, "/v1/conversations", &json!({})).await);
    let path = format!("/v1/conversations/{}", id(&conversation));
    let items = format!("{path}/items");
    for (path, body, expected) in [
        (
            "/v1/conversations",
            json!({"metadata": {"a": 1}}),
            "`metadata.a`: expected a string, found a number",
        ),
        ("/v1/conversations", json!({"items": "a"}), "`items`: expected an array of items, found a string"),
        (
            "/v1/conversations",
            json!({"items": [{"role": "user"}]}),
            "`items[0].content`: this field is required",
        ),
        (&items, json!({}), "`items`: this field is required"),
        (&items, json!({"items": []}), "`items`: must not be empty"),
        (&path, json!({}), "`metadata`: this field is required"),
        (
            "/v1/responses",
            json!({"input": "a", "conversation": "conv_1", "previous_response_id": "resp_1"}),
            "`previous_response_id`: cannot be combined with `conversation`",
        ),
        (
            "/v1/responses",
            json!({"input": "a", "conversation": {}}),
            "`conversation.id`: this field is required",
        ),
        ("/v1/responses", json!({"conversation": id(&conversation)}), "`input`: this field is required"),
        (
            "/v1/responses",
            json!({"input": "a", "background": true}),
            "`background`: only false is supported here",
        ),
    ] {
        let (status, _, message) = refusal(&post(&app, path, &body).await);
        assert_eq!((status, message.as_str()), (400, expected));
    }
    // Items of the conversation can be the whole input.
    let added = json!({"items": [{"role": "user", "content": "One?"}]});
    ok(&post(&app, &items, &added).await);
    assert_eq!(respond(&app, &json!({"conversation": id(&conversation)})).await["status"], "completed");
}

#[tokio::test]
async fn a_conversation_that_is_too_large_names_the_field() {
    let (app, _) = with_limits(StoreLimits { bytes: 3000, ..StoreLimits::default() });
    let metadata = |len: usize| json!({"k": "x".repeat(len)});
    let items = |len: usize| json!([{"role": "user", "content": "x".repeat(len)}]);
    let body = json!({"metadata": metadata(1500), "items": items(500)});
    let conversation = ok(&post(&app, "/v1/conversations", &body).await);
    let path = format!("/v1/conversations/{}", id(&conversation));
    for (path, body, param) in [
        ("/v1/conversations", json!({"metadata": metadata(3000)}), "metadata"),
        ("/v1/conversations", json!({"metadata": metadata(10), "items": items(3000)}), "items"),
        (&path, json!({"metadata": metadata(2500)}), "metadata"),
        (&format!("{path}/items"), json!({"items": items(800)}), "items"),
    ] {
        let answer = post(&app, path, &body).await;
        let (status, _, message) = refusal(&answer);
        assert_eq!((status, &answer.json()["error"]["param"]), (400, &json!(param)), "{message}");
        assert!(message.ends_with("bytes, which exceed the limit of 3000"), "{message}");
    }
    assert_eq!(ok(&get(&app, &path).await), conversation);
}
