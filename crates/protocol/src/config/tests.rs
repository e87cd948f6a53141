use super::*;

const EXAMPLE: &str = include_str!("../../../../grammars/formwork.toml");

fn error(text: &str) -> String {
    Config::parse(text).expect_err(text).to_string()
}

#[test]
fn the_example_has_every_key_and_is_right() {
    let config = Config::parse(EXAMPLE).expect("a good file");
    assert_eq!(config.aros, Aros::default(), "the example shows the defaults");
    let router = &config.providers["openrouter"];
    assert!(router.api_prefix.is_some() && router.api_key_env.is_some() && router.timeout.is_some());
    assert!(!router.headers.is_empty() && !router.llm_options_defaults.is_empty() && router.preset.is_some());
    let backend = router.backend(Some("key")).expect("a backend");
    assert_eq!(backend.endpoint(), "https://openrouter.ai/api/v1/chat/completions");
    let policy = router.retry.policy();
    assert_eq!((policy.retries, policy.first), (3, Duration::from_secs(1)));
    assert_eq!((policy.longest, policy.deadline), (Duration::from_secs(30), Some(Duration::from_secs(120))));
    let glm = &config.models["glm"];
    assert_eq!((glm.provider.as_str(), glm.profile()), ("openrouter", "glm_4_7_steady"));
    assert!(config.profiles().get("glm_4_7_steady").expect("a profile").applies_to("z-ai/glm-4.7"));
    assert_eq!(config.models["small"].provider, LOCAL_PROVIDER);
}

#[test]
fn nothing_is_a_configuration() {
    let config = Config::parse("").expect("a good file");
    assert_eq!(config, Config::default());
    assert_eq!(config.aros, Aros::default());
}

#[test]
fn what_is_left_out_comes_from_the_catalogue() {
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
fn a_profile_of_the_file_comes_before_a_predefined_one() {
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
            "line 3: `aros.coercion_tolerant_level`: 3 is not 0, 1 or 2",
        ),
        (
            "[aros]\nmax_unescape_depth = 9",
            "line 2: `aros.max_unescape_depth`: 9 is not a depth of at most 8",
        ),
        ("[aros]\nanyof_strategy = \"first\"", "line 2: `aros.anyof_strategy`: unknown variant `first`"),
        ("[provider.x]\nbase_url = \"http://x\"", "line 1: `provider`: unknown field `provider`"),
        ("\n[providers.x]\ntimeout = 3", "line 2: `providers.x`: missing field `base_url`"),
        (
            "[providers.local]\nbase_url = \"http://x\"",
            "line 1: `providers.local`: the name stands for the engine in this process",
        ),
        ("[providers.x]\nbase_url = \"ftp://x\"", "line 2: `providers.x.base_url`: `ftp://x` is not the URL"),
        (
            "[providers.x]\nbase_url = \"http://x\"\ntimeout = 0",
            "line 3: `providers.x.timeout`: 0 is not a positive number of seconds",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\nretry = { first = -1 }",
            "line 3: `providers.x.retry.first`: -1 is not a number of seconds",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\nheaders = { \"a b\" = \"c\" }",
            "line 3: `providers.x.headers`: `a b` is not a header",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\npreset = \"y\"",
            "line 3: `providers.x.preset`: there is no `y`, but ",
        ),
        (
            "[providers.x]\nbase_url = \"http://x\"\n[providers.x.llm_options_defaults]\ntools = []",
            "line 3: `providers.x.llm_options_defaults`: `tools` is not for defaults",
        ),
        ("[models.x]\nmodel = \"\"", "line 2: `models.x.model`: it is empty"),
        (
            "[models.x]\nmodel = \"m\"\nprovider = \"p\"",
            "line 3: `models.x.provider`: there is no `p`, but local",
        ),
        (
            "[models.x]\nmodel = \"m\"\nprofile = \"p\"",
            "line 3: `models.x.profile`: there is no `p`, but default, ",
        ),
        (
            "[models.x]\nmodel = \"m\"\npresets = [\"p\"]",
            "line 3: `models.x.presets`: unknown variant `p`, expected one of `deepseek_openrouter_compat`, ",
        ),
        (
            "[sampling_profiles.x]\ntop_p = 2",
            "line 2: `sampling_profiles.x.top_p`: `top_p` is 2, and must be a number between 0 and 1",
        ),
        (
            "[sampling_profiles.x]\ntop_k = -1",
            "line 2: `sampling_profiles.x.top_k`: invalid value: integer `-1`",
        ),
        (
            "[sampling_profiles.default]\ntop_k = 1",
            "line 1: `sampling_profiles.default`: the name stands for values that are the backend's own",
        ),
        ("[aros", "line 1: "),
        ("[aros]\na = = 1", "line 2: "),
    ] {
        let error = error(text);
        assert!(error.starts_with(told), "{text}\n{error}\n{told}");
    }
    let error = Config::parse("[aros]\nenabled = 3").expect_err("a number");
    assert_eq!((error.line(), error.key()), (2, Some("aros.enabled")));
}
