use super::*;
use crate::adapt::AdaptOptions;

const EXAMPLE: &str = include_str!("../../../../grammars/formwork.toml");

fn error(text: &str) -> String {
    Config::parse(text).expect_err(text).to_string()
}

#[test]
fn the_example_has_every_key_and_is_valid() {
    let config = Config::parse(EXAMPLE).expect("a good file");
    assert_eq!(config.aros, Aros::default(), "the example shows the defaults");
    let router = &config.providers["openrouter"];
    assert!(router.api_prefix.is_some() && router.api_key_env.is_some() && router.timeout.is_some());
    assert!(!router.headers.is_empty() && !router.llm_options_defaults.is_empty() && router.preset.is_some());
    assert!(router.capabilities.is_some() && router.accepts_temperature.is_some());
    assert!(router.token_limit_field.is_some());
    let backend = router.backend(Some("key")).expect("a backend");
    assert_eq!(backend.endpoint(), "https://openrouter.ai/api/v1/chat/completions");
    let policy = router.retry.policy();
    assert_eq!((policy.retries, policy.first), (3, Duration::from_secs(1)));
    assert_eq!((policy.longest, policy.deadline), (Duration::from_secs(30), Some(Duration::from_secs(120))));
    let glm = &config.models["glm"];
    assert_eq!((glm.provider.as_str(), glm.profile()), ("openrouter", "glm_4_7_steady"));
    assert!(config.profiles().get("glm_4_7_steady").expect("a profile").applies_to("z-ai/glm-4.7"));
    assert_eq!(config.models["small"].provider, LOCAL_PROVIDER);
    assert_eq!(config.traces.database.as_deref(), Some(std::path::Path::new("traces.db")));
    let tools = config.tool_calling.options().expect("options");
    assert_eq!((tools.tool_timeout_ms, tools.max_turns.get()), (Some(60_000), 12));
}

#[test]
fn the_example_has_every_option_of_tool_loops() {
    let config = Config::parse(EXAMPLE).expect("a good file");
    let given = serde_json::to_value(&config.tool_calling).expect("JSON");
    // With all optional fields set, the options have every field.
    let every = serde_json::to_value(config.tool_calling.options().expect("options")).expect("JSON");
    let names = |value: &serde_json::Value| -> Vec<String> {
        let mut names: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!((names(&given), names(&given).len()), (names(&every), 22));
    let message = error("[tool_calling]\nmax_turn = 1");
    assert!(message.starts_with("line ") && message.contains("unknown field `max_turn`"), "{message}");
    for field in ["model = \"x\"", "tools = []", "response_format = {}"] {
        let message = error(&format!("[tool_calling]\nmax_turns = 1\nrequest_overrides = {{ {field} }}"));
        let name = field.split(' ').next().expect("a name");
        assert!(message.starts_with("line "), "{message}");
        assert!(
            message.contains(&format!("`request_overrides.{name}`: the loop sets this field")),
            "{message}"
        );
    }
}

#[test]
fn an_empty_file_is_a_valid_configuration() {
    let config = Config::parse("").expect("a good file");
    assert_eq!(config, Config::default());
    assert_eq!(config.aros, Aros::default());
}

#[test]
fn adaptation_has_the_options_of_the_configuration() {
    let options = |aros: Aros| aros.adapt_options();
    assert_eq!(options(Aros::default()), Ok(AdaptOptions::minimal()));
    let off = options(Aros { enabled: false, ..Aros::default() }).expect("good");
    assert_eq!(off.level, OutputProcessing::Off);
    let error = options(Aros { coercion_tolerant_level: 3, ..Aros::default() }).unwrap_err();
    assert_eq!(error.to_string(), "invalid tolerance level 3; expected 0, 1 or 2");
}

#[test]
fn missing_values_come_from_the_catalogue() {
    let config = Config::parse(
        "[models.a]\nmodel = \"qwen/qwen3-235b-a22b-2507\"\n[models.b]\nmodel = \"unheard-of\"\n\
         [models.c]\nmodel = \"minimax/minimax-m2-her\"\npresets = []\nverdict = \"conditional\"",
    );
    let models = config.expect("a good file").models;
    assert_eq!(models["a"].workarounds(), [Workaround::ContentTagToolCallFallback]);
    assert_eq!((models["a"].verdict(), models["a"].profile()), (Some(Verdict::Yes), "default"));
    assert_eq!((models["b"].workarounds(), models["b"].verdict()), (&[][..], None));
    assert_eq!((models["c"].workarounds(), models["c"].verdict()), (&[][..], Some(Verdict::Conditional)));
}

#[test]
fn profiles_of_the_file_override_predefined_ones() {
    let config = Config::parse("[sampling_profiles.grok_default]\ntemperature = 0.5").expect("a good file");
    let profiles = config.profiles();
    let profile = profiles.get("grok_default").expect("a profile");
    assert_eq!((profile.sampling.temperature, profile.applies_to("any")), (Some(0.5), true));
}

#[test]
fn errors_name_line_and_key() {
    for (text, told) in [
        (
            "\n[aros]\nenabeld = true",
            "line 3: `aros.enabeld`: unknown field `enabeld`, expected one of `enabled`, ",
        ),
        ("[aros]\nenabled = 3", "line 2: `aros.enabled`: invalid type: integer `3`, expected a boolean"),
        (
            "aros.structured_output_default = \"on\"",
            "line 1: `aros.structured_output_default`: unknown variant `on`, expected one of `off`, `auto`, ",
        ),
        (
            "[aros]\nenabled = true\ncoercion_tolerant_level = 3",
            "line 3: `aros.coercion_tolerant_level`: 3 is invalid; expected 0, 1 or 2",
        ),
        (
            "[aros]\nmax_unescape_depth = 9",
            "line 2: `aros.max_unescape_depth`: 9 is invalid; expected a depth of at most 8",
        ),
        ("[aros]\nanyof_strategy = \"first\"", "line 2: `aros.anyof_strategy`: unknown variant `first`"),
        ("[provider.x]\nbase_url = \"http://x\"", "line 1: `provider`: unknown field `provider`"),
        ("\n[providers.x]\ntimeout = 3", "line 2: `providers.x`: missing field `base_url`"),
        (
            "[providers.local]\nbase_url = \"http://x\"",
            "line 1: `providers.local`: this name is reserved for the local engine",
        ),
        (
            "[providers.x]\nbase_url = \"ftp://x\"",
            "line 2: `providers.x.base_url`: invalid server URL `ftp://x`: unsupported scheme",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\ntimeout = 0",
            "line 3: `providers.x.timeout`: 0 is invalid; expected a positive number of seconds",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\nretry = { first = -1 }",
            "line 3: `providers.x.retry.first`: -1 is invalid; expected a number of seconds",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\nheaders = { \"a b\" = \"c\" }",
            "line 3: `providers.x.headers`: invalid header `a b`",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\n[providers.x.directives.request_overrides]\ntools = []",
            "line 3: `providers.x.directives.request_overrides`: `tools` cannot have a default",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\n[providers.x.directives]\nmodes = []",
            "line 4: `providers.x.directives.modes`: the value must not be empty",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\n[providers.x.directives]\nmode = \"json_object\"",
            "line 4: `providers.x.directives.mode`: unknown field `mode`",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\npreset = \"y\"",
            "line 3: `providers.x.preset`: unknown name `y`; expected one of ",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\n[providers.x.llm_options_defaults]\ntools = []",
            "line 3: `providers.x.llm_options_defaults`: `tools` cannot have a default",
        ),
        ("[models.x]\nmodel = \"\"", "line 2: `models.x.model`: the value must not be empty"),
        (
            "[models.x]\nmodel = \"m\"\nprovider = \"p\"",
            "line 3: `models.x.provider`: unknown name `p`; expected one of local",
        ),
        (
            "[models.x]\nmodel = \"m\"\nprofile = \"p\"",
            "line 3: `models.x.profile`: unknown name `p`; expected one of default, ",
        ),
        (
            "[models.x]\nmodel = \"m\"\npresets = [\"p\"]",
            "line 3: `models.x.presets`: unknown variant `p`, expected one of `deepseek_openrouter_compat`, ",
        ),
        (
            "[sampling_profiles.x]\ntop_p = 2",
            "line 2: `sampling_profiles.x.top_p`: `top_p` is 2; expected a number from 0 to 1",
        ),
        (
            "[sampling_profiles.x]\ntop_k = -1",
            "line 2: `sampling_profiles.x.top_k`: invalid value: integer `-1`",
        ),
        (
            "[sampling_profiles.default]\ntop_k = 1",
            "line 1: `sampling_profiles.default`: the profile `default` must not set any value; it stands for the backend's own values",
        ),
        ("[traces]\ndatabase = \"\"", "line 2: `traces.database`: the value must not be empty"),
        ("[traces]\nfile = \"t.db\"", "line 2: `traces.file`: unknown field `file`, expected `database`"),
        ("[aros", "line 1: "),
        ("[aros]\na = = 1", "line 2: "),
    ] {
        let error = error(text);
        assert!(error.starts_with(told), "{text}\n{error}\n{told}");
    }
    let error = Config::parse("[aros]\nenabled = 3").expect_err("a number");
    assert_eq!((error.line(), error.key()), (2, Some("aros.enabled")));
}

#[test]
fn presets_of_directives_are_tables() {
    let text = r#"
        [providers.ark]
        base_url = "https://ark.cn-beijing.volces.com/api/v3"
        preset = "volcanoengine"
        [providers.ark.directives]
        modes = ["json_object", "prompt_only"]
        max_requests = 3
        [providers.ark.directives.structured_request_overrides]
        thinking = { type = "disabled" }

        [models.mine]
        provider = "ark"
        model = "doubao"
        presets = ["prompt_only"]
        [models.mine.directives]
        repair_retries = 2
    "#;
    let config = Config::parse(text).expect("a configuration");
    let preset = config.providers["ark"].directives();
    assert_eq!((preset.strict, preset.max_requests), (Some(false), Some(3)));
    assert_eq!(preset.modes, Some(vec![Mode::JsonObject, Mode::PromptOnly]));
    assert_eq!(preset.structured_request_overrides["thinking"]["type"], "disabled");
    let model = config.models["mine"].directives();
    assert_eq!((model.modes, model.repair_retries), (Some(vec![Mode::PromptOnly]), Some(2)));
}
