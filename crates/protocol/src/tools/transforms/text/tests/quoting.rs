//! Calls in thoughts and in code, and tags of thoughts in arguments.

use super::*;

const CALL: &str = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";

/// Returns the names of the calls in the content.
fn names(content: &str) -> Vec<String> {
    after(content).0.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn calls_in_thoughts_of_every_family_are_text() {
    for (open, close) in crate::adapt::thoughts::TAGS {
        for thought in [
            format!("{open}I could {CALL}.{close}"),
            format!("{open}I could {CALL}.{close}Done."),
            format!("{open}a{close}{open}{CALL}{close}"),
            format!("{open}I could {CALL} but"),
            format!("Well. {open}I could {CALL} but"),
            format!("{open}[now()]"),
            format!("{open}a{close}Hm. {open}{CALL}"),
        ] {
            assert_eq!(after(&thought), (vec![], json!(thought)), "{thought}");
        }
        for bare in [
            "{\"name\": \"now\", \"arguments\": {}}",
            "```json\n{\"name\": \"now\"}\n```",
            "now()",
            "[now()]",
            CALL,
        ] {
            let thought = format!("{open}Hm. {CALL}{close}");
            let (calls, rest) = after(&format!("{thought}\n{bare}"));
            assert_eq!((calls.len(), rest), (1, json!(thought)), "{open} {bare}");
        }
        let between = format!("{open}a{close}{CALL}{open}b{close}");
        assert_eq!(after(&between).1, json!(format!("{open}a{close}{open}b{close}")));
        assert_eq!(names(&between), ["now"], "{between}");
    }
    for begun_by_prompt in
        [format!("I could {CALL}.</think>Done."), format!("{CALL}</thinking>"), format!("{CALL}[/THINK] so")]
    {
        assert_eq!(after(&begun_by_prompt), (vec![], json!(begun_by_prompt)), "{begun_by_prompt}");
    }
    assert_eq!(names(&format!("I could {CALL}.</think>{CALL}")), ["now"]);
    assert_eq!(names(&format!("<THINK>{CALL}</THINK>")), Vec::<String>::new());
}

#[test]
fn tags_of_thoughts_in_arguments_are_text() {
    for text in ["a</think>b", "<think>", "<think>a</think>", "[/THINK]", "◁think▷"] {
        let object = json!({ "city": text }).to_string();
        for content in [
            format!("<tool_call>{{\"name\": \"warmth\", \"arguments\": {object}}}</tool_call>"),
            format!("<think>Hm.</think>\n{{\"name\": \"warmth\", \"arguments\": {object}}}"),
            format!("{{\"name\": \"warmth\", \"arguments\": {object}}}"),
            format!("<function=warmth><parameter=city>{text}</parameter></function>"),
            format!("<think>Hm.</think>[TOOL_CALLS]warmth[ARGS]{object}"),
        ] {
            let (calls, _) = after(&content);
            assert_eq!(calls.len(), 1, "{content}");
            assert_eq!(serde_json::from_str::<Value>(&calls[0].1).expect("JSON")["city"], text, "{content}");
        }
    }
}

#[test]
fn calls_in_code_are_text() {
    for quoted in [
        format!("Write `{CALL}` to call."),
        format!("`{CALL}`"),
        format!("Write ``{CALL}`` to call."),
        format!("Like this:\n```xml\n{CALL}\n```\nGot it?"),
        format!("Like this:\n~~~\n{CALL}\n~~~"),
        format!("Like this:\n```\n{CALL}\n"),
        "Like this:\n```json\n{\"name\": \"now\", \"arguments\": {}}\n```".to_owned(),
        "Use `<|python_tag|>now.call()`.".to_owned(),
        format!("{{\"quoted\": {}}}", json!(CALL)),
    ] {
        assert_eq!(after(&quoted), (vec![], json!(quoted)), "{quoted}");
        let with_thought = format!("<think>Hm.</think>{quoted}");
        assert_eq!(after(&with_thought).0, vec![], "{with_thought}");
    }
    assert_eq!(names(&format!("```xml\n{CALL}\n```")), ["now"]);
    assert_eq!(names(&format!("Use `x`.\n{CALL}")), ["now"]);
    let ticks = "<tool_call>{\"name\": \"warmth\", \"arguments\": {\"city\": \"a ` b\"}}</tool_call>";
    assert_eq!(names(&format!("{ticks}{ticks} or `{CALL}`")), ["warmth", "warmth"]);
}
