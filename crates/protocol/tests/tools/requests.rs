//! Requests of the tool loop and the events it reports.

use std::sync::Mutex;

use formwork_protocol::tools::Transforms;
use formwork_protocol::{Capabilities, Category};

use super::*;

#[tokio::test]
async fn sends_overrides_except_reserved_fields() {
    let overrides = json!({
        "temperature": 0.5, "provider": { "order": ["a"] }, "model": "x", "messages": [], "tools": [], "tool_choice": "none",
        "response_format": { "type": "text" }, "stream": true,
    });
    let (run, asked) = run(json!({ "request_overrides": overrides }), [says("Hi")]).await;
    assert!(run.ok);
    assert_eq!(
        asked[0].keys().collect::<Vec<_>>(),
        ["temperature", "provider", "tools", "model", "messages"]
    );
    assert_eq!((&asked[0]["model"], &asked[0]["messages"]), (&json!("m"), &json!(question())));
    let ignored: Vec<_> = run.turns[0].warnings.iter().map(|warning| &warning.details["name"]).collect();
    assert_eq!(ignored, ["model", "messages", "tools", "tool_choice", "response_format", "stream"]);
    assert!(warnings(&run, 0).iter().all(|code| *code == "RESERVED_OVERRIDE"));
}

#[tokio::test]
async fn requests_have_tools_and_options() {
    let given = json!({ "tool_choice": "auto", "request_overrides": { "seed": 7 } });
    let (run, asked) = run(given, [calls("a", "echo", ""), says("Done.")]).await;
    for (turn, asked) in asked.into_iter().enumerate() {
        let plan = run.plan(turn).expect("a turn");
        let mut planned = plan.options;
        planned.insert("model".to_owned(), "m".into());
        planned.insert("messages".to_owned(), plan.messages.into());
        assert_eq!(planned, asked);
        assert_eq!(planned["tools"].as_array().map(Vec::len), Some(3));
        assert_eq!((&planned["tool_choice"], &planned["seed"]), (&json!("auto"), &json!(7)));
    }
}

#[tokio::test]
async fn forces_a_first_call_if_the_backend_enforces_calls() {
    let choices = async |given: Value, capabilities: Capabilities| {
        let script = [Ok(calls("a", "echo", "")), Ok(says("Done."))];
        let backend = Arc::new(ScriptedBackend::new(script).with_capabilities(capabilities));
        let prompt = PromptRunner::new(backend.clone(), "m");
        let runner = ToolLoopRunner::new(prompt, Arc::new(registry()), options(given)).expect("a runner");
        let run = runner.run(question()).await.expect("not cancelled");
        let asked = backend.asked();
        (
            asked.iter().map(|body| body.get("tool_choice").cloned()).collect::<Vec<_>>(),
            run.setup.options.force_first_call,
        )
    };
    let (all, none) = (Capabilities::all(), Capabilities::NONE);
    let enforced = json!({ "tool_use_mode": "enforced" });
    let required = Some(json!("required"));
    assert_eq!(choices(enforced.clone(), all).await, (vec![required.clone(), None], Some(true)));
    assert_eq!(choices(enforced, none).await, (vec![None, None], Some(false)));
    assert_eq!(choices(json!({}), all).await.0, [None, None]);
    let never = json!({ "tool_use_mode": "enforced", "force_first_call": false });
    assert_eq!(choices(never, all).await.0, [None, None]);
    assert_eq!(choices(json!({ "tool_choice": "required" }), none).await.0, [required, None]);
}

#[tokio::test]
async fn applies_each_kind_of_transform() {
    let transforms = Transforms::default()
        .with_message("shout", |messages| messages[0]["content"] = json!("WHAT?"))
        .with_tool("one", |tools| tools.truncate(1))
        .with_response("quiet", |message| {
            message.insert("content".to_owned(), "quiet".into());
        })
        .with_call("rename", |call| call.name = "echo".to_owned())
        .with_result("only_data", |envelope| *envelope = envelope["data"].take());
    let given = json!({
        "message_transforms": ["shout"], "tool_transforms": ["one"], "response_transforms": ["quiet"],
        "tool_call_transforms": ["rename"], "tool_result_transforms": ["only_data"],
    });
    let script = [Ok(calls("a", "Echo!", r#"{"x": 1}"#)), Ok(says("Done."))];
    let backend = Arc::new(ScriptedBackend::new(script));
    let prompt = PromptRunner::new(backend.clone(), "m");
    let runner = ToolLoopRunner::with_transforms(prompt, Arc::new(registry()), options(given), &transforms);
    let run = runner.expect("a runner").run(question()).await.expect("not cancelled");
    let asked = backend.asked();
    assert_eq!(asked[0]["messages"][0]["content"], "WHAT?");
    assert_eq!(asked[0]["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(asked[1]["messages"][1]["content"], "quiet");
    assert_eq!(asked[1]["messages"][1]["tool_calls"][0]["function"]["name"], "echo");
    assert_eq!(asked[1]["messages"][2]["content"], r#"{"x":1}"#);
    // Message transforms do not change the conversation, and the record has the result before its
    // transforms.
    assert_eq!(run.messages[0], question()[0]);
    assert!(run.turns[0].calls[0].result.ok);
    assert_eq!(run.text.as_deref(), Some("quiet"));
}

#[tokio::test]
async fn presets_meet_the_rules_of_their_providers() {
    use formwork_protocol::tools::Preset;
    let asked = async |preset: Preset, first: Value| {
        let backend = Arc::new(ScriptedBackend::new([Ok(first), Ok(says("Done."))]));
        let prompt = PromptRunner::new(backend.clone(), "m");
        let options = preset.options().expect("options");
        let runner = ToolLoopRunner::new(prompt, Arc::new(registry()), options).expect("a runner");
        let run = runner.run(question()).await.expect("not cancelled");
        (run, backend.asked())
    };
    let (_, deepseek) = asked(Preset::deepseek_openrouter_compat(), calls("a", "echo", "{}")).await;
    let message = &deepseek[1]["messages"][1];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!(""), &json!("")));

    let (run, gemini) = asked(Preset::gemini_openrouter_compat(), calls("a", "default_api.echo", "{}")).await;
    let call = &gemini[1]["messages"][1]["tool_calls"][0];
    assert_eq!(call["extra_content"]["google"]["thought_signature"], "skip_thought_signature_validator");
    assert_eq!((&call["function"]["name"], run.turns[0].calls[0].result.ok), (&json!("echo"), true));

    let tagged = says(r#"<tool_call>{"name": "echo", "arguments": {"x": 1}}</tool_call>"#);
    let (run, fallback) = asked(Preset::content_tag_tool_call_fallback(), tagged.clone()).await;
    assert_eq!(run.turns[0].calls[0].call.arguments, r#"{"x":1}"#);
    assert_eq!(fallback[1]["messages"][1]["content"], json!(null));
    let (run, _) = asked(Preset::default_tool_calling(), tagged).await;
    assert_eq!(run.stats.tool_calls, 0, "without the preset it is text");

    let (run, general) =
        asked(Preset::default_tool_calling(), calls_all(&[("a", "echo", ""), ("b", "echo", "")])).await;
    assert_eq!((run.stats.tool_calls, run.stats.ignored_tool_calls_count), (1, 1));
    assert_eq!(general[0]["parallel_tool_calls"], false);

    let (_, disabled) = asked(Preset::tool_use_disabled(), says("Hi")).await;
    assert!(!disabled[0].contains_key("tools"));
}

#[tokio::test]
async fn reports_every_event() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let script = [
        Ok(calls_all(&[("a", "maybe", r#"{"fail":true}"#), ("b", "echo", "")])),
        Ok(says("")),
        Err(BackendError::from_status(429, "slow down")),
    ];
    let prompt = PromptRunner::new(Arc::new(ScriptedBackend::new(script)), "m");
    let runner =
        ToolLoopRunner::new(prompt, Arc::new(registry()), options(json!({ "max_tool_calls_per_turn": 1 })));
    let runner = runner.expect("a runner").on_event(move |event| {
        let mut event = serde_json::to_value(event).expect("JSON");
        if let Some(fields) = event.as_object_mut() {
            fields.shift_remove("latency_ms");
        }
        if let Some(record) = event.get_mut("record").and_then(Value::as_object_mut) {
            record.shift_remove("latency_ms");
        }
        log.lock().expect("a lock").push(event.to_string());
    });
    runner.run(question()).await.expect("not cancelled");
    insta::assert_snapshot!(told.lock().expect("a lock").join("\n"), @r#"
    {"event":"asking","turn":1,"tools":3,"is_finalization":false}
    {"event":"answered","turn":1,"finish_reason":"tool_calls"}
    {"event":"ignored","turn":1,"ignored_tool_calls_count":1}
    {"event":"calling","turn":1,"call":{"id":"a","name":"maybe","arguments":"{\"fail\":true}"}}
    {"event":"called","turn":1,"record":{"call":{"id":"a","name":"maybe","arguments":"{\"fail\":true}"},"result":{"ok":false,"data":null,"errors":[{"code":"REFUSED","message":"no"}],"warnings":[]}}}
    {"event":"asking","turn":2,"tools":3,"is_finalization":false}
    {"event":"answered","turn":2,"finish_reason":"stop"}
    {"event":"empty_final","turn":2,"is_asked_again":true}
    {"event":"asking","turn":3,"tools":0,"is_finalization":true}
    {"event":"failed","turn":3,"error":{"code":"RATE_LIMITED","message":"the backend answered 429: slow down","status":429}}
    {"event":"finished","ok":false,"errors":[{"code":"RATE_LIMITED","message":"the backend answered 429: slow down","status":429}]}
    "#);
}

#[tokio::test]
async fn cancellation_passes_through() {
    let script = [Ok(calls("a", "echo", "")), Err(BackendError::cancelled())];
    let prompt = PromptRunner::new(Arc::new(ScriptedBackend::new(script)), "m");
    let runner = ToolLoopRunner::new(prompt, Arc::new(registry()), options(json!({}))).expect("a runner");
    let error = runner.run(question()).await.expect_err("cancelled");
    assert_eq!(error.category(), Category::Cancelled);
}

#[test]
fn runs_can_move_between_threads() {
    fn check<T: Send>(_: &T) {}
    let prompt = PromptRunner::new(Arc::new(ScriptedBackend::new([])), "m");
    let runner = ToolLoopRunner::new(prompt, Arc::new(registry()), options(json!({}))).expect("a runner");
    check(&runner.run(question()));
}

#[test]
fn rejects_unknown_transforms_before_any_request() {
    let prompt = PromptRunner::new(Arc::new(ScriptedBackend::new([])), "m");
    let given = options(json!({ "message_transforms": ["nothing"] }));
    let error = ToolLoopRunner::new(prompt, Arc::new(registry()), given).err().expect("refused").to_string();
    assert!(
        error.starts_with("unknown message transform `nothing`; expected one of assistant_tool_calls_"),
        "{error}"
    );
}

#[tokio::test]
async fn reserved_defaults_never_reach_a_request() {
    let backend =
        Arc::new(ScriptedBackend::new([Ok(calls("a", "echo", "{}")), Ok(says("")), Ok(says("Done."))]));
    let mut defaults = json!({ "temperature": 0.5, "parallel_tool_calls": false });
    for name in formwork_protocol::tools::RESERVED {
        defaults[name] = json!("mine");
    }
    let prompt = PromptRunner::new(backend.clone(), "m")
        .with_defaults(defaults.as_object().cloned().expect("an object"));
    let runner = ToolLoopRunner::new(prompt, Arc::new(registry()), options(json!({}))).expect("a runner");
    let run = runner.run(question()).await.expect("not cancelled");
    assert!(run.ok);
    let asked = backend.asked();
    let names = |at: usize| asked[at].keys().map(String::as_str).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(names(0), ["messages", "model", "parallel_tool_calls", "temperature", "tools"].into());
    assert_eq!((&asked[0]["model"], &asked[0]["temperature"]), (&json!("m"), &json!(0.5)));
    // The last request has no tools, so it has no field about calls either.
    assert_eq!(names(2), ["messages", "model", "temperature"].into());
    let warned: Vec<_> = run.turns[0]
        .warnings
        .iter()
        .map(|warning| (warning.code.as_str(), &warning.details["name"]))
        .collect();
    let expected: Vec<Value> = formwork_protocol::tools::RESERVED.iter().map(|name| json!(name)).collect();
    assert_eq!(warned, expected.iter().map(|name| ("RESERVED_DEFAULT", name)).collect::<Vec<_>>());
    let replayed = formwork_protocol::tools::replay(&run, &Transforms::default());
    assert_eq!(replayed.expect("the same"), run);
}
