use super::*;
use crate::adapt::{AdaptOptions, Tolerance};
use crate::config::{OutputProcessing, StructuredOutput};
use crate::precheck::InjectFeedback;

/// Example steps file from the specification, verbatim.
const EXCERPT: &str = r#"
agents:
  my_agent_step:
    processing:
      structured_output: auto          # off | auto | openai_json | outlines | xgrammar
      aop: minimal                     # off | minimal | full
      coercion:
        tolerant_level: 0              # 0=off, 1=json5, 2=json-repair
        allow:
          integer: ["str->int"]
          number:  ["str->float"]
          boolean: ["str->bool"]
        max_unescape_depth: 2
        anyof_strategy: "first-pass"
      reasoning_precheck:
        enabled: false
        validator_agent: agents.plan_checker   # optional
        max_tokens: 200                        # budget cap for the precheck
        score_threshold: 0.7                   # optional scoring gate
        required_context_keys: ["initial_input"]
        inject_feedback: "prepend"             # prepend | context_key | (unset)
        retry_guidance_prefix: "Guidance: "    # for prepend mode
        context_feedback_key: "_aros_retry_guidance"  # for context_key mode
"#;

fn yaml(text: &str) -> Result<StepsFile, StepsError> {
    StepsFile::parse(text, Format::Yaml)
}

fn block(text: &str) -> Processing {
    yaml(text).expect("a file").agents.remove("step").expect("the step").processing.expect("a block")
}

#[test]
fn the_documented_excerpt_is_a_file() {
    let file = yaml(EXCERPT).expect("a file");
    let processing = file.step("my_agent_step").expect("a step").processing.clone().expect("a block");
    assert_eq!(processing.structured_output, Some(StructuredOutput::Auto));
    assert_eq!(processing.aop, Some(OutputProcessing::Minimal));
    assert_eq!(processing.coercion.tolerant_level, Some(Tolerance::Strict));
    let precheck = &processing.reasoning_precheck;
    assert_eq!(
        (precheck.enabled, precheck.max_tokens, precheck.score_threshold),
        (Some(false), Some(200), Some(0.7))
    );
    assert_eq!(precheck.inject_feedback, Some(InjectFeedback::Prepend));
    let resolved = Settings::resolved(&processing, &Aros::default()).expect("settings");
    assert_eq!(
        (resolved.adapt, resolved.precheck),
        (AdaptOptions::minimal(), None),
        "these are the defaults"
    );
    for name in ["off", "auto", "json", "openai_json", "grammar", "outlines", "xgrammar"] {
        yaml(&EXCERPT.replace("structured_output: auto", &format!("structured_output: {name}"))).expect(name);
    }
}

#[test]
fn the_documented_blocks_are_files_of_one_step() {
    let coercion = block(
        r#"
processing:
  aop: full
  coercion:
    allow:
      integer: ["str->int"]
      number: ["str->float"]
      boolean: ["str->bool"]
  schema:
    type: object
    required: ["count"]
    properties:
      count: { type: integer }
"#,
    );
    assert_eq!((coercion.aop, coercion.schema.is_some()), (Some(OutputProcessing::Full), true));
    let structured = block(
        "
processing:
  structured_output: openai_json
  schema:
    type: object
    properties:
      ok: { type: boolean }
",
    );
    assert_eq!(structured.structured_output, Some(StructuredOutput::Json));
}

#[test]
fn the_example_has_every_key() {
    let text = include_str!("../../../../../grammars/steps.yaml");
    let file = yaml(text).expect("a file");
    let backend = says(&[]);
    let step = file.build("extract_order", &Aros::default(), &|_| prompts(&backend)).expect("a step");
    assert!(
        step.settings().precheck.is_some() && step.settings().repair.is_some() && step.precheck.is_some()
    );
    for key in [
        "model",
        "system",
        "prompt",
        "options",
        "retries",
        "structured_output",
        "aop",
        "coercion",
        "tolerant_level",
        "allow",
        "max_unescape_depth",
        "anyof_strategy",
        "reasoning_precheck",
        "enabled",
        "validator_agent",
        "planner_agent",
        "max_tokens",
        "score_threshold",
        "required_context_keys",
        "inject_feedback",
        "retry_guidance_prefix",
        "context_feedback_key",
        "consensus_samples",
        "consensus_threshold",
        "schema",
        "grammar",
        "enforce_grammar",
        "shadow",
        "repair",
        "max_attempts",
        "modes",
        "schema_in_prompt",
        "processors",
        "quota",
    ] {
        assert!(text.contains(&format!("{key}:")), "{key}");
    }
}

#[test]
fn all_formats_give_the_same_file() {
    let yaml = StepsFile::parse("agents: { a: { retries: 3, processing: { aop: full } } }", Format::Yaml);
    let toml = StepsFile::parse("[agents.a]\nretries = 3\nprocessing.aop = \"full\"", Format::Toml);
    let json =
        StepsFile::parse(r#"{"steps": {"a": {"retries": 3, "processing": {"aop": "full"}}}}"#, Format::Json);
    assert_eq!(yaml, toml);
    assert_eq!(toml, json);
    assert_eq!(yaml.expect("a file").agents["a"].retries, Some(3));
    assert_eq!(Format::of_extension("toml"), Format::Toml);
    assert_eq!((Format::of_extension("json"), Format::of_extension("yml")), (Format::Json, Format::Yaml));
}

#[test]
fn errors_in_files_have_a_place() {
    let within = |text: &str| format!("agents:\n  a:\n    processing:\n      {text}\n");
    for (text, told) in [
        ("soap: full", "line 4, column 7: unknown field `soap`, expected one of structured_output, "),
        ("aop: some", "line 4, column 12: unknown variant `some`, expected one of off, minimal, full"),
        ("structured_output: on", "line 4, column 26: unknown variant `on`"),
        (
            "coercion: { tolerant_level: 3 }",
            "line 4, column 35: invalid tolerance level 3; expected 0, 1 or 2",
        ),
        (
            "coercion: { allow: { integer: [\"str->date\"] } }",
            "line 4, column 38: unknown variant `str->date`",
        ),
        (
            "coercion: { max_unescape_depth: 9 }",
            "line 4, column 39: invalid unescape depth 9; expected 0 to 8",
        ),
        ("coercion: { anyof_strategy: best }", "line 4, column 35: unknown variant `best`"),
        ("reasoning_precheck: { inject_feedback: append }", "line 4, column 46: unknown variant `append`"),
        ("repair: { attempts: 3 }", "line 4, column 17: unknown field `attempts`"),
        ("enforce_grammar: true", "line 4, `agents.a.processing.enforce_grammar`: requires a schema"),
        ("schema: { type: text }", "line 4, `agents.a.processing.schema`: invalid JSON Schema: "),
        (
            "reasoning_precheck: { max_tokens: 0 }",
            "line 4, `agents.a.processing.reasoning_precheck.max_tokens`: 0 is invalid; expected a positive number of tokens",
        ),
        (
            "reasoning_precheck: { consensus_threshold: 2 }",
            "line 4, `agents.a.processing.reasoning_precheck.consensus_threshold`: 2 is invalid; expected a number from 0 to 1",
        ),
        (
            "reasoning_precheck: { enabled: true, validator_agent: agents.x }",
            "line 4, `agents.a.processing.reasoning_precheck.validator_agent`: unknown name `agents.x`; expected one of a",
        ),
        (
            "reasoning_precheck: { validator_agent: agents.x }",
            "line 4, `agents.a.processing.reasoning_precheck.validator_agent`: unknown name `agents.x`; expected one of a",
        ),
        (
            "reasoning_precheck: { enabled: true, planner_agent: x }",
            "line 4, `agents.a.processing.reasoning_precheck.planner_agent`: unknown name `x`; expected one of a",
        ),
        ("grammar: ' '", "line 4, `agents.a.processing.grammar`: requires at least one rule"),
        (
            "reasoning_precheck: { inject_feedback: context_key, context_feedback_key: '' }",
            "line 4, `agents.a.processing.reasoning_precheck.context_feedback_key`: requires a non-empty name",
        ),
    ] {
        let error = yaml(&within(text)).expect_err(text).to_string();
        assert!(error.starts_with(told), "{text}\n{error}\n{told}");
    }
    for (text, told) in [
        ("agents:\n  a:\n    prompt: '{{ x'", "line 3, `agents.a.prompt`: invalid template: "),
        ("stpes: {}", "line 1, column 1: unknown field `stpes`"),
    ] {
        let error = yaml(text).expect_err(text).to_string();
        assert!(error.starts_with(told), "{text}\n{error}");
    }
    let error = StepsFile::parse("\n[agents.a.processing.coercion]\ntolerant_level = 3", Format::Toml)
        .expect_err("3");
    assert_eq!(
        error.to_string(),
        "line 3, `agents.a.processing.coercion.tolerant_level`: invalid tolerance level 3; expected 0, 1 or 2"
    );
    let error = StepsFile::parse("{\"agents\": {\"a\": {\"soap\": 1}}}", Format::Json).expect_err("soap");
    assert!(error.to_string().starts_with("line 1, column 24: unknown field `soap`"), "{error}");
    let file = yaml("agents: { a: {} }").expect("a file");
    assert_eq!(
        file.step("b").expect_err("no step").to_string(),
        "line 1, `agents`: unknown name `b`; expected one of a"
    );
}

#[test]
fn errors_name_the_line_in_each_format() {
    let toml = "[agents.a]\nretries = 1\n[agents.a.processing]\nenforce_grammar = true\n";
    let json = "{\n \"steps\": {\n  \"a\": {\n   \"processing\": {\"enforce_grammar\": true}}}}";
    let only = "processing:\n  enforce_grammar: true\n";
    for (text, format, line) in [(toml, Format::Toml, 4), (json, Format::Json, 4), (only, Format::Yaml, 2)] {
        let error = StepsFile::parse(text, format).expect_err(text).to_string();
        assert!(error.starts_with(&format!("line {line}, `agents.")), "{text}\n{error}");
    }
}

#[test]
fn files_without_steps_say_so() {
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        for text in ["", " \n\n"] {
            let error = StepsFile::parse(text, format).expect_err("empty").to_string();
            assert_eq!(error, "line 1: the file is empty", "{format:?}");
        }
    }
    for (text, format) in [("# nothing", Format::Toml), ("{}", Format::Json), ("agents: {}", Format::Yaml)] {
        let error = StepsFile::parse(text, format).expect_err(text).to_string();
        assert!(error.contains("has no steps; expected `agents`"), "{text}: {error}");
    }
}

#[test]
fn refuses_options_without_effect() {
    let schema = "schema: { type: object }";
    for (text, place, told) in [
        ("repair: { strict: true }".to_owned(), "", "`strict` has no effect in a step"),
        ("repair: { strict: false }".to_owned(), "", "`strict` has no effect in a step"),
        ("repair: { modes: [json_object] }".to_owned(), "", "set `processing.modes` instead"),
        ("repair: {}".to_owned(), "repair", "the step has no schema"),
        (
            format!("structured_output: json\n      grammar: root\n      {schema}"),
            "grammar",
            "neither auto nor grammar",
        ),
        (
            format!("structured_output: off\n      modes: [json_object]\n      {schema}"),
            "modes",
            "this option has no effect",
        ),
        (
            format!("aop: minimal\n      coercion: {{ tolerant_level: 1 }}\n      {schema}"),
            "coercion.tolerant_level",
            "`aop` is not full",
        ),
        (
            format!("coercion: {{ anyof_strategy: unique }}\n      {schema}"),
            "coercion.anyof_strategy",
            "`aop` is not full",
        ),
        (format!("aop: off\n      shadow: true\n      {schema}"), "shadow", "`aop` is off"),
        (
            "reasoning_precheck: { enabled: true, consensus_samples: 3 }".to_owned(),
            "reasoning_precheck.consensus_samples",
            "no `planner_agent`",
        ),
        ("processors: [{ command: [] }]".to_owned(), "processors.command", "requires a program"),
    ] {
        let text = format!("agents:\n  a:\n    processing:\n      {text}\n");
        let build = |file: StepsFile| {
            file.build("a", &Aros::default(), &|_| prompts(&says(&[]))).err().map(|error| error.to_string())
        };
        let error = yaml(&text).map_or_else(|error| Some(error.to_string()), build).expect(&text);
        assert!(error.starts_with("line ") && error.contains(told), "{text}\n{error}");
        assert!(
            place.is_empty() || error.contains(&format!("`agents.a.processing.{place}`")),
            "{text}\n{error}"
        );
    }
    let error = yaml("agents:\n  a:\n    options: { stream: true }").expect_err("a reserved field");
    assert_eq!(
        error.to_string(),
        "line 3, `agents.a.options`: `stream` cannot be set here; each request sets this field"
    );
}

#[tokio::test]
async fn a_quota_of_the_file_ends_the_step() {
    let file = "
agents:
  s:
    prompt: Count.
    retries: 5
    options: { max_tokens: 50 }
    quota: { tokens: 100 }
    processing: { schema: { type: object, required: [count] } }
";
    let backend = says(&["no", "no", "no", "no"]);
    let step = yaml(file).expect("a file");
    let step = step.build("s", &Aros::default(), &|_| prompts(&backend)).expect("a step");
    let (output, _) = ran(&step).await;
    let error = output.expect_err("no output");
    assert_eq!(error.interruption(), Some(crate::Interruption::BudgetExhausted));
    assert!(backend.asked().len() < 3, "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn processors_of_the_file_change_the_value() {
    let with = |processor: &str| {
        let file = format!(
            "agents:\n  s:\n    prompt: Count.\n    retries: 0\n    processing:\n      schema: {{ type: object, required: [count] }}\n      processors: [{processor}]\n"
        );
        let backend = says(&[r#"{"total": 2}"#]);
        yaml(&file).expect("a file").build("s", &Aros::default(), &|_| prompts(&backend)).expect("a step")
    };
    let (output, _) = ran(&with("{ command: [sed, s/total/count/] }")).await;
    assert_eq!(output.expect("an output").value, json!({ "count": 2 }));
    let (output, _) = ran(&with("{ command: [wc, -c], input: text }")).await;
    assert_eq!(output.expect_err("a number").errors(), ["The whole value: Expected object, got number"]);
    for (processor, told) in [
        ("{ command: [/no/such/program] }", "could not be started"),
        ("{ command: [sh, -c, 'echo bad >&2; exit 3'] }", "bad"),
        ("{ command: [echo, hello] }", "wrote no JSON value"),
        ("{ command: [sleep, '20'], timeout: 0.1 }", "did not end within 0.1 seconds"),
    ] {
        let (output, events) = ran(&with(processor)).await;
        assert!(output.is_err());
        let faults = json!(named(&events, "output.coercion.fail")).to_string();
        assert!(faults.contains(told), "{processor}: {faults}");
    }
}

#[test]
fn yaml_errors_are_in_plain_words() {
    let texts = [
        "agents:\n  a: [",
        "agents:\n  a: {}\n  a: {}\n",
        "agents: *a\n",
        "agents: {}\n---\nagents: {}\n",
        "agents: { a: { retries: many } }",
        "agents: { a: { retries: -1 } }",
        "agents: { a: { retries: 1.5 } }",
        "agents: { a: { processing: { reasoning_precheck: { required_context_keys: [~] } } } }",
        "agents: { a: { system: [a] } }",
        "agents: { a: { options: 7 } }",
        "agents: [a]",
        "agents: { a: { processing: { shadow: yes } } }",
        "agents: { a: { processing: { reasoning_precheck: { score_threshold: high } } } }",
        "agents: { a: { processing: { reasoning_precheck: { required_context_keys: a } } } }",
        "agents:\n\ta: {}\n",
        "agents: { a: { prompt: \"x } }",
        "agents: { a: { prompt: !!binary x } }",
        "agents:\n  a: {}\n b: {}\n",
        "- a",
        "a",
    ];
    let told: Vec<_> = texts
        .into_iter()
        .map(|text| match yaml(text) {
            Ok(_) => format!("{text:?}\n  is read"),
            Err(error) => format!("{text:?}\n  {error}"),
        })
        .collect();
    let told = told.join("\n");
    for word in
        ["saphyr", "from_", "deserialize", "u32", "f64", "mapping start", "consumed", "at line", "is read"]
    {
        assert!(!told.contains(word), "{word}\n{told}");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn ignores_a_byte_order_mark() {
    for (text, format) in [
        ("agents: { a: { retries: 3 } }", Format::Yaml),
        ("[agents.a]\nretries = 3", Format::Toml),
        (r#"{"agents": {"a": {"retries": 3}}}"#, Format::Json),
    ] {
        let file = StepsFile::parse(&format!("\u{feff}{text}"), format).expect(text);
        assert_eq!(file.agents["a"].retries, Some(3), "{text}");
    }
    let error = StepsFile::parse("\u{feff}{\"stpes\": 1}", Format::Json).expect_err("stpes").to_string();
    assert!(error.starts_with("line 1, column 8: unknown field `stpes`"), "{error}");
}

#[test]
fn a_step_overrides_the_configuration() {
    let aros = Aros {
        structured_output_default: StructuredOutput::Off,
        enable_aop_default: OutputProcessing::Full,
        coercion_tolerant_level: 2,
        max_unescape_depth: 1,
        enable_reasoning_precheck: true,
        ..Aros::default()
    };
    let of = |value: Value| {
        let processing: Processing = serde_json::from_value(value).expect("a block");
        Settings::resolved(&processing, &aros).expect("settings")
    };
    let silent = of(json!({}));
    assert_eq!(
        (silent.structured_output, silent.adapt.level),
        (StructuredOutput::Off, OutputProcessing::Full)
    );
    assert_eq!((silent.adapt.tolerance, silent.adapt.max_unescape_depth), (Tolerance::Repair, 1));
    assert!(silent.precheck.is_some());
    let speaks = of(json!({
        "structured_output": "json",
        "aop": "minimal",
        "coercion": { "tolerant_level": 1, "max_unescape_depth": 3 },
        "reasoning_precheck": { "enabled": false },
    }));
    assert_eq!(
        (speaks.structured_output, speaks.adapt.level),
        (StructuredOutput::Json, OutputProcessing::Minimal)
    );
    assert_eq!((speaks.adapt.tolerance, speaks.adapt.max_unescape_depth), (Tolerance::Json5, 3));
    assert_eq!(speaks.precheck, None);
}

#[tokio::test]
async fn disabled_configuration_disables_processing() {
    let block = json!({
        "structured_output": "json",
        "aop": "full",
        "repair": {},
        "enforce_grammar": true,
        "reasoning_precheck": { "enabled": true, "required_context_keys": ["x"], "inject_feedback": "prepend" },
    });
    let off = Aros { enabled: false, ..Aros::default() };
    assert_eq!(Settings::resolved(&processing(&block), &off), Ok(Settings::off()));
    let backend = says(&["```\n{\"count\": 1}\n```", r#"{"count": 2}"#]);
    let step = Step::new("s", prompts(&backend)).with_processing(&processing(&block), &off).expect("a block");
    let (output, events) = ran(&step).await;
    let output = output.expect("an output");
    assert_eq!(
        (output.value, output.attempts),
        (json!({ "count": 2 }), 2),
        "answers are read strictly, and asked for again"
    );
    assert!(events.is_empty(), "{events:?}");
    let asked = backend.asked();
    assert!(asked.iter().all(|body| !body.contains_key("response_format")));
    assert_eq!(asked[0]["messages"][0]["content"], "Count.");
}
