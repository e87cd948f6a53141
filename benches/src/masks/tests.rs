//! Small schemas over a vocabulary of bytes and a few longer tokens, and a deliberately wrong
//! engine.

use std::path::PathBuf;

use formwork_grammar::{Limits, SchemaOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::{Value, json};

use super::*;

fn tokenizer() -> Tokenizer {
    let text = |bytes: &[u8]| Token { bytes: bytes.to_vec(), kind: TokenKind::Text };
    let mut tokens: Vec<Token> = (0..=255).map(|byte| text(&[byte])).collect();
    tokens.extend(["{\"", "\":", "\": ", "true", "\"}"].map(|token| text(token.as_bytes())));
    tokens.push(Token { bytes: Vec::new(), kind: TokenKind::Control });
    let end = TokenId(tokens.len() as u32 - 1);
    Tokenizer::greedy(Vocabulary::new(tokens, vec![end]).unwrap())
}

fn formwork(options: SchemaOptions, isolation: Isolation) -> Formwork {
    Formwork::new(&tokenizer(), Settings { options, limits: Limits::default(), isolation }).unwrap()
}

fn case(id: &str, schema: &Value, tests: &[(bool, Value)]) -> Case {
    let tests: Vec<Value> = tests.iter().map(|(valid, data)| json!({"valid": valid, "data": data})).collect();
    let file = json!({"description": "", "schema": schema, "tests": tests}).to_string();
    Case::parse(id, file.as_bytes(), &tokenizer(), Spelling::Spaced).unwrap()
}

fn point() -> Case {
    let number = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"x": number, "y": number}, "required": ["x", "y"],
        "additionalProperties": false});
    let tests = [
        (true, json!({"x": 1, "y": 2})),
        (true, json!({"y": 2, "x": 1})),
        (false, json!({"x": 1})),
        (false, json!({"x": 1, "y": true})),
    ];
    case("point", &schema, &tests)
}

#[test]
fn right_verdicts_pass_and_every_token_and_end_is_timed() {
    for isolation in [Isolation::Test, Isolation::Schema] {
        let case = point();
        let outcome = measure(&formwork(SchemaOptions::accept(), isolation), &case);
        assert_eq!((outcome.status, &outcome.error), (Status::Pass, &None));
        // `{"x": 1` has 4 tokens, `, "y": 2` has 6 and the brace 1; the last mask is for the end.
        let complete = 11 + 1;
        // The last mask allows neither `}` after one member nor `true`.
        let (missing, wrong) = (5, 10);
        assert_eq!(outcome.mask_us.len(), 2 * complete + missing + wrong);
        assert_eq!(outcome.start_us.len(), 4);
        assert!(outcome.ttfm_us.unwrap() > 0.0);
    }
}

#[test]
fn a_profile_that_generates_one_order_rejects_the_other() {
    let options = SchemaOptions::default();
    let outcome = measure(&formwork(options, Isolation::Test), &point());
    assert_eq!(outcome.status, Status::ValidRejected);
    assert_eq!(outcome.error.as_deref(), Some("tests[1]: valid, but not allowed at token 1"));
    let counts = InstanceCounts { valid: 2, invalid: 2, valid_rejected: 1, invalid_accepted: 0 };
    assert_eq!(outcome.instances, counts);
}

#[test]
fn a_refused_schema_has_a_reason_and_no_times() {
    let engine = formwork(SchemaOptions::accept(), Isolation::Test);
    let outcome = measure(&engine, &case("refused", &json!({"type": 7}), &[(true, json!(1))]));
    assert_eq!(outcome.status, Status::CompileError);
    assert_eq!(outcome.refusal.as_ref().unwrap().keyword.as_deref(), Some("type"));
    assert_eq!((outcome.ttfm_us, outcome.mask_us.len()), (None, 0));
    let summary = Summary::of(&[outcome]);
    assert_eq!(summary.with_instances.compile_error, 1);
    assert_eq!(summary.compile_errors[0].count, 1);
    assert_eq!(summary.instances, InstanceCounts::default());
}

/// Allows every token for `steps` steps, then gives up.
struct Lax {
    steps: usize,
}

impl Engine for Lax {
    type Grammar = ();
    type Sequence = Lax;

    fn name(&self) -> String {
        "lax".to_owned()
    }

    fn compile(&self, _: Value) -> Result<(), Refusal> {
        Ok(())
    }

    fn start(&self, (): &()) -> Lax {
        Lax { steps: self.steps }
    }
}

impl Sequence for Lax {
    fn advance(&mut self, _: TokenId) -> Result<bool, String> {
        self.steps = self.steps.checked_sub(1).ok_or("out of steps")?;
        Ok(true)
    }

    fn may_end(&mut self) -> Result<bool, String> {
        Ok(true)
    }
}

#[test]
fn the_worst_verdict_is_the_status() {
    let long = json!("a long text");
    let tests = [(true, long.clone()), (false, json!(1)), (false, long)];
    let outcome = measure(&Lax { steps: 3 }, &case("lax", &json!(true), &tests));
    assert_eq!(outcome.status, Status::InvalidAccepted);
    assert_eq!(outcome.error.as_deref(), Some("tests[1]: invalid, but accepted"));
    let counts = InstanceCounts { valid: 1, invalid: 2, valid_rejected: 1, invalid_accepted: 1 };
    assert_eq!(outcome.instances, counts);
}

#[test]
fn an_engine_that_gives_up_rejects() {
    let outcome = measure(&Lax { steps: 1 }, &case("lax", &json!(true), &[(true, json!("text"))]));
    assert_eq!(outcome.status, Status::ValidRejected);
    assert_eq!(outcome.error.as_deref(), Some("tests[0]: valid, but the engine gave up: out of steps"));
}

#[test]
fn outcomes_are_in_the_order_of_the_files_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..20 {
        let text = json!({"schema": {"const": index}, "tests": [{"valid": true, "data": index}]}).to_string();
        std::fs::write(folder.path().join(format!("{index:02}.json")), text).unwrap();
    }
    let files = find(&[folder.path().to_owned()]).unwrap();
    let tokenizer = tokenizer();
    let cases = Cases { files: &files, tokenizer: &tokenizer, spelling: Spelling::Compact };
    let engine = formwork(SchemaOptions::accept(), Isolation::Test);
    for threads in [1, 3] {
        let mut told = Vec::new();
        let outcomes = run(&engine, cases, threads, |done| told.push(done)).unwrap();
        assert!(outcomes.iter().zip(&files).all(|(outcome, file)| outcome.id == file.id));
        assert_eq!(told, (1..=20).collect::<Vec<_>>());
        assert_eq!(Summary::of(&outcomes).with_instances, Counts { pass: 20, ..Counts::default() });
    }
}

#[test]
fn a_file_that_is_not_a_case_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("odd.json");
    std::fs::write(&path, "[]").unwrap();
    let files = find(&[path]).unwrap();
    let tokenizer = tokenizer();
    let cases = Cases { files: &files, tokenizer: &tokenizer, spelling: Spelling::Compact };
    let error = run(&Lax { steps: 0 }, cases, 2, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "odd.json: not a case");
}

#[test]
fn without_an_end_token_there_is_nothing_to_measure() {
    let byte = Token { bytes: b"1".to_vec(), kind: TokenKind::Text };
    let tokenizer = Tokenizer::greedy(Vocabulary::new(vec![byte], Vec::new()).unwrap());
    let settings =
        Settings { options: SchemaOptions::accept(), limits: Limits::default(), isolation: Isolation::Test };
    assert!(Formwork::new(&tokenizer, settings).is_err());
}

#[test]
fn the_summary_reads_well() {
    let outcome = |id: &str, status, refusal: Option<Refusal>, valid| Outcome {
        id: id.to_owned(),
        status,
        error: None,
        instances: InstanceCounts { valid, ..InstanceCounts::default() },
        ttfm_us: refusal.is_none().then_some(1234.5),
        refusal,
        start_us: vec![0.25; valid],
        mask_us: vec![1.5, 20.25],
    };
    let refusal = |target| Refusal {
        keyword: Some("$ref".to_owned()),
        reason: format!("unresolved reference `{target}`"),
        message: String::new(),
    };
    let summary = Summary::of(&[
        outcome("a", Status::Pass, None, 2),
        outcome("b", Status::Pass, None, 0),
        outcome("c", Status::CompileError, Some(refusal("#/x")), 1),
        outcome("d", Status::CompileError, Some(refusal("#/y")), 0),
        outcome("e", Status::InvalidAccepted, None, 1),
    ]);
    insta::assert_snapshot!(summary, @r"
    schemas                     with instances         without
      pass                                   1               1
      compile error                          1               1
      valid rejected                         0               0
      invalid accepted                       1               0

    instances of schemas that compile
      3 valid, 0 of them rejected
      0 invalid, 0 of them accepted

    compile errors
           2  $ref: unresolved reference `…`

                                    avg      p25      p50      p75      p90      p95      p99    p99.9      max
    mask, µs                       10.9     1.50     1.50     20.2     20.2     20.2     20.2     20.2     20.2
    first mask, µs                 1234     1234     1234     1234     1234     1234     1234     1234     1234
    start, µs                      0.25     0.25     0.25     0.25     0.25     0.25     0.25     0.25     0.25
    ");
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["ttfm_us"]["p99.9"], 1234.5);
    assert_eq!(json["with_instances"]["invalid_accepted"], 1);
    assert_eq!(json["compile_errors"][0]["keyword"], "$ref");
}
