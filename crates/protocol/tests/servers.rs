//! Steps against scripted servers that misbehave in known ways. Each run ends as documented and
//! within its bounds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use formwork_protocol::config::Aros;
use formwork_protocol::step::{Format, Step, StepError, StepInput, StepOutput, StepsFile};
use formwork_protocol::trace::{MemorySink, Tracer};
use formwork_protocol::{
    Body, Category, ChatBackend, Feature, ModelSupport, PromptRunner, RemoteBackend, RetryPolicy,
    ScriptedBackend, SupportMemory,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Scripted server on a loopback port.
struct Server {
    url: String,
    /// Bodies of all requests, in order.
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    /// Starts a server. `answer` gets the number of a request, from 1, and its body, and returns the
    /// status and body of the response.
    async fn start(answer: impl Fn(usize, &Value) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let body = read(&mut stream).await;
                let number = {
                    let mut seen = seen.lock().expect("a lock");
                    seen.push(body.clone());
                    seen.len()
                };
                let (status, body) = answer(number, &body);
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} Status\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                // The client may have given up.
                let _ = stream.write_all((head + &body).as_bytes()).await;
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<Value> {
        self.requests.lock().expect("a lock").clone()
    }
}

async fn read(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            if body.len() >= length.parse::<usize>().expect("a number") {
                return serde_json::from_str(body).expect("JSON");
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.expect("a request");
        assert!(count > 0, "the request broke off");
        bytes.extend_from_slice(&piece[..count]);
    }
}

fn says(text: &str) -> (u16, Value) {
    let mut answer = ScriptedBackend::says(text);
    answer["usage"] = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    (200, answer)
}

fn refuses(message: &str) -> (u16, Value) {
    (400, json!({ "error": { "message": message, "type": "invalid_request_error" } }))
}

/// Answers as a server that enforces schemas: probes get the required sign, other requests `text`.
fn enforced(body: &Value, text: &str) -> (u16, Value) {
    if body["response_format"]["json_schema"]["name"] == "probe" {
        return says(r#"{"sign": 7419}"#);
    }
    says(text)
}

const STEPS: &str = "
agents:
  count:
    prompt: Count the words.
    options: { max_tokens: 50, temperature: 0 }
    retries: 2
    processing:
      schema: { type: object, properties: { count: { type: integer } }, required: [count] }
";

fn backend(url: &str) -> RemoteBackend {
    let retry = RetryPolicy {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(4),
        ..RetryPolicy::default()
    };
    RemoteBackend::new(url).expect("a URL").with_retry(retry).with_timeout(Duration::from_secs(5))
}

fn step(backend: RemoteBackend, steps: &str) -> Step {
    let backend: Arc<dyn ChatBackend> = Arc::new(backend);
    let file = StepsFile::parse(steps, Format::Yaml).expect("a file");
    file.build("count", &Aros::default(), &|_| PromptRunner::new(Arc::clone(&backend), "m")).expect("a step")
}

/// Runs a step and returns its result with the names and attributes of its events.
async fn run(step: &Step) -> (Result<StepOutput, StepError>, Vec<(String, Value)>) {
    let memory = MemorySink::default();
    let run = Tracer::default().with_sink(memory.clone()).run("test");
    let started = Instant::now();
    let ended = step.run(&StepInput::default(), &mut Body::new(), &run).await;
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let events = memory.events().into_iter();
    (ended, events.map(|event| (event.name.to_string(), json!(event.attributes))).collect())
}

fn attributes<'a>(events: &'a [(String, Value)], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|(known, _)| known == name).map(|(_, attributes)| attributes).collect()
}

#[tokio::test]
async fn a_server_that_takes_no_max_tokens_gets_the_other_name() {
    let server = Server::start(|_, body| {
        if body.get("max_tokens").is_some() {
            return refuses("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.");
        }
        if body.get("temperature").is_some() {
            return refuses("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.");
        }
        enforced(body, r#"{"count": 2}"#)
    })
    .await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let backend =
        backend(&server.url).on_notice(move |notice| log.lock().expect("a lock").push(notice.to_string()));
    let step = step(backend, STEPS);
    for _ in 0..2 {
        let (ended, events) = run(&step).await;
        let output = ended.expect("an output");
        assert_eq!((output.value, output.attempts), (json!({ "count": 2 }), 1));
        assert_eq!(attributes(&events, "grammar.applied")[0]["sent"], "json_schema");
    }
    let requests = server.requests();
    // Two refused probes, one answered, and one request for each run.
    assert_eq!(requests.len(), 5, "{requests:#?}");
    for request in &requests[3..] {
        assert_eq!((&request["max_completion_tokens"], request.get("temperature")), (&json!(50), None));
        assert_eq!(request["response_format"]["type"], "json_schema");
        assert!(request.get("max_tokens").is_none());
    }
    let told = told.lock().expect("a lock").join("\n");
    assert_eq!(told.matches("`temperature` is not sent").count(), 1, "{told}");
    assert_eq!(told.matches("`max_completion_tokens`").count(), 1, "{told}");
}

#[tokio::test]
async fn a_server_that_ignores_the_format_gets_the_schema_in_the_prompt() {
    let server = Server::start(|number, _| says(if number < 4 { "Hello!" } else { r#"{"count": 2}"# })).await;
    let (ended, events) = run(&step(backend(&server.url), STEPS)).await;
    assert_eq!(ended.expect("an output").attempts, 2);
    let requests = server.requests();
    // The probes of json_schema and json_object, and two attempts.
    assert_eq!(requests.len(), 4, "{requests:#?}");
    for request in &requests[2..] {
        assert!(request.get("response_format").is_none());
        let prompt = request["messages"][0]["content"].as_str().expect("a text");
        assert!(
            prompt.starts_with("Count the words.\n\n") && prompt.contains(r#""required":["count"]"#),
            "{prompt}"
        );
    }
    assert_eq!(attributes(&events, "aros.soe.skipped")[0]["reason"], "unsupported");
    let retry = attributes(&events, "step.retry")[0];
    assert_eq!((&retry["attempt"], &retry["tokens"], retry.get("text")), (&json!(2), &json!(15), None));
    assert!(retry["latency_ms"].as_f64().is_some_and(|time| time > 0.0), "{retry}");
}

#[tokio::test]
async fn a_trusted_format_that_is_ignored_leads_to_the_next_mode() {
    let server = Server::start(|_, _| says("Hello!")).await;
    let steps = STEPS.replace("      schema:", "      structured_output: openai_json\n      schema:");
    let (ended, events) = run(&step(backend(&server.url), &steps).with_kept_failures(true)).await;
    let error = ended.expect_err("no output");
    assert_eq!(error.attempts(), 3);
    let requests = server.requests();
    let sent: Vec<_> = requests.iter().map(|request| request["response_format"]["type"].clone()).collect();
    assert_eq!(sent, [json!("json_schema"), json!("json_object"), Value::Null], "no probe is sent");
    let shows = |request: &Value| {
        request["messages"][0]["content"].as_str().is_some_and(|text| text.contains("JSON Schema"))
    };
    assert_eq!(requests.iter().map(shows).collect::<Vec<_>>(), [false, true, true]);
    let fail = attributes(&events, "step.fail")[0];
    assert_eq!(
        (&fail["reason"], &fail["text"], &fail["tokens"]),
        (&json!("output"), &json!("Hello!"), &json!(45))
    );
}

#[tokio::test]
async fn a_server_that_refuses_formats_is_asked_in_each_mode_once() {
    let server = Server::start(|_, body| match body.get("response_format") {
        Some(_) => refuses("response_format is not supported"),
        None => says(r#"{"count": 2}"#),
    })
    .await;
    let steps = STEPS.replace("      schema:", "      structured_output: openai_json\n      schema:");
    let (ended, events) = run(&step(backend(&server.url), &steps)).await;
    assert_eq!(ended.expect("an output").attempts, 1);
    let sent: Vec<_> =
        server.requests().iter().map(|request| request["response_format"]["type"].clone()).collect();
    assert_eq!(sent, [json!("json_schema"), json!("json_object"), Value::Null]);
    assert_eq!(attributes(&events, "aros.soe.skipped").len(), 3);
}

#[tokio::test]
async fn a_server_that_fails_each_third_call_needs_only_resends() {
    let server = Server::start(|number, body| match number % 3 {
        0 => (503, json!({ "error": { "message": "overloaded" } })),
        _ => enforced(body, if number < 4 { r#"{"count": "many"}"# } else { r#"{"count": 2}"# }),
    })
    .await;
    let (ended, events) = run(&step(backend(&server.url), STEPS)).await;
    assert_eq!(ended.expect("an output").attempts, 2);
    // A probe, an invalid answer, a failure and its resend.
    assert_eq!(server.requests().len(), 4);
    assert_eq!(attributes(&events, "step.retry").len(), 1);
    assert!(attributes(&events, "step.fail").is_empty());
}

#[tokio::test]
async fn a_server_that_is_down_ends_the_step() {
    // A port that nothing listens on.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let retries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&retries);
    let backend = backend(&url).on_retry(move |_| *count.lock().expect("a lock") += 1);
    let (ended, events) = run(&step(backend, STEPS)).await;
    let error = ended.expect_err("no output");
    assert_eq!(error.backend().map(formwork_protocol::BackendError::category), Some(Category::Connection));
    assert_eq!(*retries.lock().expect("a lock"), 3, "the probe alone is retried");
    assert_eq!(attributes(&events, "step.fail")[0]["reason"], "backend");
}

#[tokio::test]
async fn a_server_that_always_fails_ends_the_step() {
    let server = Server::start(|_, _| (503, json!({ "error": { "message": "overloaded" } }))).await;
    let (ended, events) = run(&step(backend(&server.url), STEPS)).await;
    assert_eq!(
        ended.expect_err("no output").backend().and_then(formwork_protocol::BackendError::status),
        Some(503)
    );
    assert_eq!(server.requests().len(), 4);
    assert_eq!(attributes(&events, "step.fail").len(), 1);
}

#[tokio::test]
async fn a_server_that_never_answers_ends_the_step_at_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let backend = backend(&url).with_timeout(Duration::from_millis(50));
    let (ended, _) = run(&step(backend, STEPS)).await;
    assert_eq!(
        ended.expect_err("no output").backend().map(formwork_protocol::BackendError::category),
        Some(Category::Timeout)
    );
    drop(listener);
}

#[tokio::test]
async fn repairs_are_events_with_tokens_and_time() {
    let server = Server::start(|number, body| {
        enforced(body, if number < 4 { r#"{"count": "many"}"# } else { r#"{"count": 2}"# })
    })
    .await;
    let steps = STEPS.replace("      schema:", "      repair: {}\n      schema:");
    let (ended, events) = run(&step(backend(&server.url), &steps)).await;
    let output = ended.expect("an output");
    assert_eq!((output.attempts, output.repairs), (1, 2));
    let repairs = attributes(&events, "step.repair");
    let results: Vec<_> = repairs.iter().map(|repair| (&repair["result"], &repair["tokens"])).collect();
    assert_eq!(results, [(&json!("invalid"), &json!(15)), (&json!("valid"), &json!(15))]);
    // The answer shows that the server does not enforce the schema, so the repairs contain it.
    let requests = server.requests();
    assert!(requests[2]["messages"][0]["content"].as_str().is_some_and(|text| text.contains("JSON Schema")));
}

/// Memory in place of a file.
#[derive(Default)]
struct Memory(Mutex<HashMap<String, ModelSupport>>);

impl SupportMemory for Memory {
    fn load(&self, endpoint: &str, model: &str) -> Option<ModelSupport> {
        self.0.lock().expect("a lock").get(&format!("{endpoint} {model}")).cloned()
    }

    fn place(&self) -> Option<String> {
        Some("memory.json".to_owned())
    }

    fn update(&self, endpoint: &str, model: &str, change: &dyn Fn(&mut ModelSupport)) {
        change(self.0.lock().expect("a lock").entry(format!("{endpoint} {model}")).or_default());
    }
}

#[tokio::test]
async fn what_was_found_out_is_remembered() {
    let server = Server::start(|_, body| match body.get("max_tokens") {
        Some(_) => refuses("max_tokens is not supported"),
        None => enforced(body, r#"{"count": 2}"#),
    })
    .await;
    let memory = Arc::new(Memory::default());
    for (runs, requests) in [(1, 3), (2, 4)] {
        let backend = backend(&server.url).with_memory(memory.clone());
        run(&step(backend, STEPS)).await.0.expect("an output");
        assert_eq!(server.requests().len(), requests, "run {runs}");
    }
    // Only the constraint that the step needs was probed.
    let known = memory.0.lock().expect("a lock").values().next().cloned().expect("an entry");
    assert_eq!(known.features.into_iter().collect::<Vec<_>>(), [(Feature::JsonSchema, true)]);
}

#[tokio::test]
async fn a_probe_that_shows_nothing_is_not_remembered() {
    let cut = |text: &str, finish_reason: &str| {
        let mut answer = says(text);
        answer.1["choices"][0]["finish_reason"] = finish_reason.into();
        answer
    };
    let error = |status: u16, message: &str| (status, json!({ "error": { "message": message } }));
    for probed in [
        error(402, "insufficient credits"),
        error(404, "model is loading"),
        error(404, "<html>not found</html>"),
        error(400, "prompt is too long"),
        error(422, "'messages' must not be empty"),
        cut("", "length"),
        cut("", "content_filter"),
        cut("I cannot", "content_filter"),
    ] {
        let told = probed.1.to_string();
        let server = Server::start(move |number, body| match number {
            1 => probed.clone(),
            _ => enforced(body, r#"{"count": 2}"#),
        })
        .await;
        let memory = Arc::new(Memory::default());
        let first = backend(&server.url).with_memory(memory.clone());
        // The first run fails, or goes on without the constraint.
        drop(run(&step(first, STEPS)).await);
        let known = memory.0.lock().expect("a lock").values().next().cloned().unwrap_or_default();
        assert!(!known.features.contains_key(&Feature::JsonSchema), "{told}");
        let sent = server.requests().len();
        let second = backend(&server.url).with_memory(memory.clone());
        run(&step(second, STEPS)).await.0.expect("an output");
        assert_eq!(server.requests()[sent + 1]["response_format"]["type"], "json_schema", "{told}");
    }
}

/// Runs the step against a server that enforces the schema in probes and answers `answers` to the
/// step's requests, again and again. Returns what is remembered after each run.
async fn remembered(answers: Vec<fn() -> (u16, Value)>, runs: usize) -> Vec<ModelSupport> {
    let asked = Mutex::new(0);
    let server = Server::start(move |_, body| {
        if body["messages"][0]["content"] == "Say hello, as a JSON object." {
            return enforced(body, "");
        }
        let mut asked = asked.lock().expect("a lock");
        *asked += 1;
        answers[(*asked - 1) % answers.len()]()
    })
    .await;
    let memory = Arc::new(Memory::default());
    let mut known = Vec::new();
    for _ in 0..runs {
        let backend = backend(&server.url).with_memory(memory.clone());
        drop(run(&step(backend, STEPS)).await);
        known.push(memory.0.lock().expect("a lock").values().next().cloned().expect("an entry"));
    }
    known
}

#[tokio::test]
async fn one_stray_answer_does_not_disable_a_capability() {
    let prose: fn() -> (u16, Value) = || says("Sure, here it is: two.");
    let good: fn() -> (u16, Value) = || says(r#"{"count": 2}"#);
    let is_enforced = |known: &ModelSupport| known.features.get(&Feature::JsonSchema).copied();
    // In each run the first answer is prose and the second one, in another mode, is good.
    let known = remembered(vec![prose, good], 3).await;
    let found: Vec<_> = known.iter().map(is_enforced).collect();
    assert_eq!(found, [Some(true), Some(false), Some(false)], "two in a row");
    // A good answer between the two takes the doubt away.
    let known = remembered(vec![prose, good, good], 4).await;
    let found: Vec<_> = known.iter().map(is_enforced).collect();
    assert_eq!(found, [Some(true); 4]);
}

#[tokio::test]
async fn withheld_answers_refute_nothing() {
    let choice = |message: Value, reason: &str| {
        (200, json!({ "choices": [{ "index": 0, "message": message, "finish_reason": reason }] }))
    };
    for answer in [
        choice(json!({ "content": "I cannot" }), "content_filter"),
        choice(json!({ "content": "I'm sorry, I can't help", "refusal": "no" }), "stop"),
        choice(json!({ "content": "Let me look", "tool_calls": [{ "id": "1" }] }), "tool_calls"),
        choice(json!({ "content": "Let me look", "function_call": { "name": "f" } }), "function_call"),
    ] {
        let server = Server::start(move |_, body| {
            if body["messages"][0]["content"] == "Say hello, as a JSON object." {
                return enforced(body, "");
            }
            answer.clone()
        })
        .await;
        let memory = Arc::new(Memory::default());
        for _ in 0..2 {
            let backend = backend(&server.url).with_memory(memory.clone());
            run(&step(backend, STEPS)).await.0.expect_err("no output");
        }
        let known = memory.0.lock().expect("a lock").values().next().cloned().expect("an entry");
        assert_eq!(known.features.get(&Feature::JsonSchema), Some(&true));
        assert!(known.doubts.is_empty());
    }
}

#[tokio::test]
async fn a_name_of_the_token_limit_is_learned_from_success_only() {
    for refusal in ["prompt is too long", "max_completion_tokens is not supported", "no"] {
        let server = Server::start(move |_, body| match body.get("max_tokens") {
            Some(_) => refuses("max_tokens is not supported"),
            None => refuses(refusal),
        })
        .await;
        let (memory, notices) = (Arc::new(Memory::default()), Arc::new(Mutex::new(Vec::new())));
        let told = Arc::clone(&notices);
        let backend = backend(&server.url)
            .with_memory(memory.clone())
            .on_notice(move |notice| told.lock().expect("a lock").push(notice.to_string()));
        let body = json!({ "model": "m", "messages": [], "max_tokens": 5 }).as_object().cloned();
        backend.chat(&body.expect("an object")).await.expect_err("refused");
        assert!(memory.0.lock().expect("a lock").is_empty(), "{refusal}");
        assert_eq!(*notices.lock().expect("a lock"), [""; 0], "{refusal}");
    }
}

#[tokio::test]
async fn a_remembered_lack_says_where_it_is_remembered() {
    let server = Server::start(|_, _| says("Hello")).await;
    let memory = Arc::new(Memory::default());
    let steps = STEPS.replace("      schema:", "      modes: [json_schema]\n      schema:");
    for is_recalled in [false, true] {
        let backend = backend(&server.url).with_memory(memory.clone());
        let error = run(&step(backend, &steps)).await.0.expect_err("no mode").to_string();
        let hint = "remembered in memory.json for a day: delete the file to ask the server again";
        assert_eq!(error.contains(hint), is_recalled, "{error}");
    }
}

#[tokio::test]
async fn a_quota_of_time_ends_a_step_in_a_pause_or_on_a_hanging_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = format!("http://{}", listener.local_addr().expect("an address"));
    let failing = Server::start(|_, _| (503, json!({ "error": { "message": "busy" } }))).await;
    let steps = STEPS.replace("    retries: 2", "    retries: 2\n    quota: { seconds: 0.3 }");
    for url in [&silent, &failing.url] {
        let retry = RetryPolicy { first: Duration::from_secs(60), ..RetryPolicy::default() };
        let backend = RemoteBackend::new(url).expect("a URL").with_retry(retry);
        let started = Instant::now();
        let (ended, _) = run(&step(backend, &steps)).await;
        assert!(ended.expect_err("no output").interruption().is_some());
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_declared_server_is_not_probed() {
    let server = Server::start(|_, _| says(r#"{"count": 2}"#)).await;
    let backend = backend(&server.url).with_capabilities([Feature::JsonObject].into_iter().collect());
    run(&step(backend, STEPS)).await.0.expect("an output");
    let requests = server.requests();
    assert_eq!((requests.len(), &requests[0]["response_format"]["type"]), (1, &json!("json_object")));
}

#[tokio::test]
async fn a_wrong_model_or_key_is_reported_at_once() {
    for (status, code) in [(404, "model_not_found"), (401, "invalid_api_key")] {
        let server =
            Server::start(move |_, _| (status, json!({ "error": { "message": "no", "code": code } }))).await;
        let (ended, _) = run(&step(backend(&server.url), STEPS)).await;
        assert_eq!(ended.expect_err("no output").backend().and_then(|error| error.code()), Some(code));
        assert_eq!(server.requests().len(), 1, "{code}");
    }
}
