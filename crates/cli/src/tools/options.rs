//! Options of a tool loop, from the model, the configuration and the command line.

use anyhow::{Context, Result};
use formwork_protocol::Body;
use formwork_protocol::config::Config;
use formwork_protocol::sampling::Sampling;
use formwork_protocol::tools::{Preset, RESERVED, ToolCallingOptions, ToolUseMode, Transforms};
use serde_json::{Value, json};

use super::args::{ModeArg, NextToolArg, OptionArgs, PolicyArg, RepeatedArg, RunArgs, SamplingArgs};

/// Model whose presets and sampling profile apply.
pub(super) struct Subject {
    /// Name in requests.
    pub(super) model: String,
    /// Preset of the provider and the model.
    pub(super) preset: Preset,
    /// Sampling profile that the configuration sets for the model.
    pub(super) profile: Option<String>,
}

/// Returns the options: those of the model, the configuration, the named presets and the command
/// line, each overriding the ones before.
pub(super) fn options(args: &RunArgs, config: &Config, subject: &Subject) -> Result<ToolCallingOptions> {
    let OptionArgs { preset, request_override, .. } = &args.options;
    let mut merged = subject.preset.clone();
    let profile = args.sampling.profile.as_ref().or(subject.profile.as_ref());
    if let Some(name) = profile {
        let sampling = config.profiles().sampling(name, &subject.model).context("--profile")?;
        merged = merged.merge(&Preset::of_overrides(sampling.options()));
    }
    merged = merged.merge(&config.tool_calling);
    for name in preset {
        let known = Preset::NAMES.join(", ");
        let named = Preset::named(name)
            .with_context(|| format!("--preset {name}: unknown preset; expected one of {known}"))?;
        merged = merged.merge(&named);
    }
    for (name, _) in request_override {
        if RESERVED.contains(&name.as_str()) {
            anyhow::bail!("--request-override {name}: the loop sets this field");
        }
    }
    merged = merged.merge(&Preset::new(own(&args.options))?);
    merged = merged.merge(&Preset::of_overrides(sampling(&args.sampling)?));
    let options = merged.options()?;
    check_effect(&args.options, options.tool_use_mode)?;
    // Unknown transforms are reported before a model is loaded.
    Transforms::default().resolve(&options)?;
    Ok(options)
}

/// Refuses options that have no effect in the mode of the run.
fn check_effect(args: &OptionArgs, mode: ToolUseMode) -> Result<()> {
    let is_never_called = mode == ToolUseMode::Disabled || args.tool_choice.as_deref() == Some("none");
    if args.next_tool == Some(NextToolArg::Decision) && is_never_called {
        anyhow::bail!("--next-tool decision has no effect: the run allows no calls");
    }
    let name = match mode {
        ToolUseMode::Enforced => return Ok(()),
        ToolUseMode::Relaxed => "relaxed",
        ToolUseMode::Disabled => "disabled",
    };
    let given = [
        ("--failure-policy", args.failure_policy.is_some()),
        ("--force-first-call", args.force_first_call.is_some()),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        anyhow::bail!("{flag} has no effect in the mode {name}; add --mode enforced");
    }
    Ok(())
}

/// Returns the fields that the command line sets.
fn own(args: &OptionArgs) -> Value {
    let choice = args.tool_choice.as_deref().map(|choice| match choice {
        "auto" | "required" | "none" => json!(choice),
        name => json!({ "type": "function", "function": { "name": name } }),
    });
    let mode = args.mode.map(|mode| match mode {
        ModeArg::Enforced => "enforced",
        ModeArg::Relaxed => "relaxed",
        ModeArg::Disabled => "disabled",
    });
    let policy = args.failure_policy.map(|policy| match policy {
        PolicyArg::Fatal => "fatal",
        PolicyArg::Tolerated => "tolerated",
    });
    let repeated = args.repeated_calls.map(|repeated| match repeated {
        RepeatedArg::Warn => "warn",
        RepeatedArg::Stop => "stop",
    });
    let next_tool = args.next_tool.map(|next| match next {
        NextToolArg::Model => "model",
        NextToolArg::Decision => "decision",
    });
    let list = |names: &Vec<String>| (!names.is_empty()).then(|| json!(names));
    let overrides: Body = args.request_override.iter().cloned().collect();
    let fields = [
        ("tool_use_mode", mode.map(Value::from)),
        ("tool_failure_policy", policy.map(Value::from)),
        ("max_tool_args_bytes", args.max_tool_args_bytes.map(Value::from)),
        ("max_tool_output_bytes", args.max_tool_output_bytes.map(Value::from)),
        ("max_tool_calls_per_turn", args.max_tool_calls_per_turn.map(|calls| calls.get().into())),
        ("fix_empty_final", args.fix_empty_final.map(Value::from)),
        ("fix_empty_final_disable_tools", args.fix_empty_final_disable_tools.map(Value::from)),
        ("fix_empty_final_prompt", args.fix_empty_final_prompt.clone().map(Value::from)),
        ("max_turns", args.max_turns.map(|turns| turns.get().into())),
        ("max_conversation_bytes", args.max_conversation_bytes.map(Value::from)),
        ("repeated_calls", repeated.map(Value::from)),
        ("tool_timeout_ms", args.tool_timeout_ms.map(Value::from)),
        ("tool_choice", choice),
        ("force_first_call", args.force_first_call.map(Value::from)),
        ("next_tool", next_tool.map(Value::from)),
        ("request_overrides", (!overrides.is_empty()).then(|| overrides.into())),
        ("message_transforms", list(&args.message_transform)),
        ("tool_transforms", list(&args.tool_transform)),
        ("response_transforms", list(&args.response_transform)),
        ("text_call_format", args.text_call_format.map(|format| json!(format))),
        ("tool_call_transforms", list(&args.tool_call_transform)),
        ("tool_result_transforms", list(&args.tool_result_transform)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Body>().into()
}

/// Returns the request fields of the sampling options.
fn sampling(args: &SamplingArgs) -> Result<Body> {
    let SamplingArgs { temperature, top_p, top_k, min_p, .. } = *args;
    let sampling = Sampling { temperature, top_p, top_k, min_p };
    sampling.check()?;
    let mut fields = sampling.options();
    if let Some(max_tokens) = args.max_tokens {
        fields.insert("max_tokens".to_owned(), max_tokens.get().into());
    }
    if let Some(seed) = args.seed {
        fields.insert("seed".to_owned(), seed.into());
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command::{Args, Command};
    use crate::tools::ToolsCommand;

    fn args(more: &[&str]) -> RunArgs {
        let args = Args::try_parse_from([&["formwork", "tools", "run", "Go."][..], more].concat())
            .expect("arguments");
        match args.command {
            Command::Tools(ToolsCommand::Run(run)) => *run,
            _ => unreachable!("the command is given"),
        }
    }

    fn read(more: &[&str], config: &str) -> Result<ToolCallingOptions> {
        let config = Config::parse(config)?;
        let preset = Preset::for_model("openrouter", "z-ai/glm-4.7");
        let subject = Subject { model: "z-ai/glm-4.7".to_owned(), preset, profile: None };
        options(&args(more), &config, &subject)
    }

    #[test]
    fn every_option_of_the_library_has_a_flag() -> Result<()> {
        let flags = [
            "--mode=enforced",
            "--failure-policy=tolerated",
            "--max-tool-args-bytes=1",
            "--max-tool-output-bytes=2",
            "--max-tool-calls-per-turn=3",
            "--fix-empty-final=false",
            "--fix-empty-final-disable-tools=false",
            "--fix-empty-final-prompt=Well?",
            "--max-turns=4",
            "--max-conversation-bytes=6",
            "--repeated-calls=stop",
            "--tool-timeout-ms=5",
            "--tool-choice=f",
            "--force-first-call=true",
            "--next-tool=decision",
            "--request-override=user=me",
            "--request-override=a={\"b\": 1}",
            "--message-transform=tool_messages_name_if_missing",
            "--tool-transform=tools_without_descriptions",
            "--response-transform=assistant_content_tool_call_tags_to_tool_calls",
            "--text-call-format=glm",
            "--tool-call-transform=tool_call_name_without_namespace",
            "--tool-result-transform=tool_result_compact_envelope",
            "--temperature=0.5",
            "--top-p=0.9",
            "--top-k=7",
            "--min-p=0.1",
            "--seed=8",
            "--max-tokens=9",
        ];
        let set = own(&args(&flags).options);
        let options = read(&flags, "")?;
        let every = serde_json::to_value(&options)?;
        let names = |value: &Value| {
            value.as_object().map(|fields| fields.keys().cloned().collect::<std::collections::BTreeSet<_>>())
        };
        assert_eq!(names(&set), names(&every), "each option is set by a flag");
        assert_eq!(options.tool_choice, Some(json!({ "type": "function", "function": { "name": "f" } })));
        let expected = json!({
            "parallel_tool_calls": false, "user": "me", "a": { "b": 1 }, "temperature": 0.5, "top_p": 0.9,
            "top_k": 7, "min_p": 0.1, "seed": 8, "max_tokens": 9,
        });
        assert_eq!(Value::Object(options.request_overrides), expected);
        Ok(())
    }

    #[test]
    fn the_command_line_overrides_the_configuration_and_the_model() -> Result<()> {
        let config = "[tool_calling]\nmax_turns = 3\nmax_tool_args_bytes = 7\n[tool_calling.request_overrides]\ntemperature = 0.1";
        let options = read(&["--max-turns", "5", "--profile", "recommended"], config)?;
        assert_eq!((options.max_turns.get(), options.max_tool_args_bytes), (5, 7));
        assert_eq!(options.response_transforms, ["assistant_content_tool_call_tags_to_tool_calls"]);
        assert_eq!(options.request_overrides["temperature"], 0.1);
        Ok(())
    }

    #[test]
    fn invalid_options_name_their_flag() {
        let fault = |more: &[&str]| format!("{:#}", read(more, "").expect_err("refused"));
        assert!(
            fault(&["--request-override", "tools=[]"]).starts_with("--request-override tools: the loop sets")
        );
        assert!(
            fault(&["--tool-transform", "x"]).starts_with("unknown tool transform `x`; expected one of ")
        );
        assert!(
            fault(&["--profile", "grok_default"])
                .starts_with("--profile: the sampling profile `grok_default` does not")
        );
        for (flag, mode) in [
            (&["--failure-policy", "tolerated"][..], "relaxed"),
            (&["--failure-policy", "fatal", "--mode", "disabled"], "disabled"),
            (&["--force-first-call", "true"], "relaxed"),
            (&["--force-first-call", "true", "--mode", "disabled"], "disabled"),
        ] {
            let expected = format!("{} has no effect in the mode {mode}; add --mode enforced", flag[0]);
            assert_eq!(fault(flag), expected);
        }
        for never in [["--mode", "disabled"], ["--tool-choice", "none"]] {
            let flags = [&["--next-tool", "decision"][..], &never].concat();
            assert_eq!(fault(&flags), "--next-tool decision has no effect: the run allows no calls");
        }
        let enforced = "[tool_calling]\ntool_use_mode = \"enforced\"";
        assert!(read(&["--failure-policy", "tolerated"], enforced).is_ok());
        assert!(fault(&["--top-p", "2"]).starts_with("`top_p` is 2; expected a number from 0 to 1"));
    }
}
