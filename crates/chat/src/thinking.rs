//! Variables with which a template switches thoughts on and off, and its levels of effort.
//!
//! Requests use one name for each: `enable_thinking` and `reasoning_effort`. Templates have other names and
//! levels, and refuse what they do not know. [`ThinkingVariables::of`] renders a prompt with each of them.

use serde_json::{Map, Value, json};

/// Name of the variable with which requests switch thoughts.
const ENABLE: &str = "enable_thinking";

/// Name of the variable with the effort.
const EFFORT: &str = "reasoning_effort";

/// Kimi K3's name of [`EFFORT`].
const OTHER_EFFORT: &str = "thinking_effort";

/// An effort that no template knows.
const UNKNOWN_EFFORT: &str = "probeeffort";

/// Efforts of requests, in ascending order.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Efforts of gpt-oss, whose template writes any text.
const HARMONY_EFFORTS: [&str; 3] = ["low", "medium", "high"];

/// Other names of [`ENABLE`], and their values for off and on. `null` stands for a missing variable.
fn switches() -> [(&'static str, Value, Value); 5] {
    [
        // DeepSeek V3.1 and later, Kimi K2.5 and K3, Granite 3.3.
        ("thinking", json!(false), json!(true)),
        // MiniMax M3.
        ("thinking_mode", json!("disabled"), json!("enabled")),
        // Command A.
        ("reasoning", json!(false), json!(true)),
        // Seed-OSS.
        ("thinking_budget", json!(0), Value::Null),
        // Hunyuan 3.
        (EFFORT, json!("no_think"), json!("high")),
    ]
}

/// Variables of a template about thoughts.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ThinkingVariables {
    /// Names that switch thoughts, with their values for off and on.
    switches: Vec<(&'static str, Value, Value)>,
    efforts: Vec<EffortVariable>,
}

/// A variable with the effort.
#[derive(Clone, PartialEq, Debug)]
struct EffortVariable {
    name: &'static str,
    /// The efforts that the template takes.
    taken: Vec<&'static str>,
    /// The efforts whose prompts differ from that of an effort that no template knows. Empty if there is no
    /// such prompt.
    distinct: Vec<&'static str>,
}

impl ThinkingVariables {
    /// Finds the variables of a template. `render` returns a prompt with variables, or `None` if the
    /// template fails. `is_harmony` is true for the format of gpt-oss.
    pub(crate) fn of(render: &dyn Fn(Map<String, Value>) -> Option<String>, is_harmony: bool) -> Self {
        let with = |name: &str, value: &Value| {
            let given = (!value.is_null()).then(|| (name.to_owned(), value.clone()));
            render(given.into_iter().collect())
        };
        let differ = |name: &str, off: &Value, on: &Value| {
            with(name, off).zip(with(name, on)).is_some_and(|(off, on)| off != on)
        };
        // Some templates write all variables, or all efforts.
        let writes_all = differ("probevariable", &json!(false), &json!(true));
        let takes_any = with(EFFORT, &json!(UNKNOWN_EFFORT)).is_some();
        let is_switch = |(name, off, on): &(&str, Value, Value)| {
            !writes_all && (*name != EFFORT || !takes_any) && differ(name, off, on)
        };
        let switches: Vec<_> = switches().into_iter().filter(is_switch).collect();
        let mut on = Map::from_iter([(ENABLE.to_owned(), json!(true))]);
        for (name, _, value) in switches.iter().filter(|(name, _, value)| *name != EFFORT && !value.is_null())
        {
            on.insert((*name).to_owned(), value.clone());
        }
        // Templates may check an effort only if thoughts are on.
        let with_effort = |name: &str, effort: &str| {
            let mut variables = on.clone();
            variables.insert(name.to_owned(), json!(effort));
            render(variables)
        };
        let mut efforts = Vec::new();
        for name in [EFFORT, OTHER_EFFORT] {
            let unknown = with_effort(name, UNKNOWN_EFFORT);
            let is_taken = |effort: &&str| with_effort(name, effort).is_some();
            let is_distinct = |effort: &&str| unknown.is_some() && with_effort(name, effort) != unknown;
            let (taken, distinct) = if is_harmony {
                (HARMONY_EFFORTS.to_vec(), HARMONY_EFFORTS.to_vec())
            } else {
                let taken: Vec<&str> = EFFORTS.into_iter().filter(is_taken).collect();
                let distinct = taken.iter().copied().filter(is_distinct).collect();
                (taken, distinct)
            };
            let is_used = with_effort(name, "low") != with_effort(name, "high");
            if name == EFFORT || is_used && !writes_all {
                efforts.push(EffortVariable { name, taken, distinct });
            }
        }
        Self { switches, efforts }
    }

    /// Sets the variables of the template from those of a request.
    pub(crate) fn set(&self, variables: &mut Map<String, Value>) {
        let enabled = variables.get(ENABLE).and_then(Value::as_bool);
        let effort = variables.get(EFFORT).and_then(Value::as_str);
        let asked = EFFORTS.iter().position(|known| Some(*known) == effort);
        if let Some(asked) = asked {
            for effort in &self.efforts {
                let Some(nearest) = effort.nearest(asked) else { continue };
                let is_switch = self.switches.iter().any(|(name, ..)| *name == effort.name);
                if effort.name == EFFORT {
                    variables.remove(EFFORT);
                }
                // The switch sets the effort below.
                if !(is_switch && enabled == Some(false)) {
                    variables.entry(effort.name).or_insert_with(|| json!(nearest));
                }
            }
        }
        let Some(enabled) = enabled else { return };
        for (name, off, on) in &self.switches {
            let value = if enabled { on } else { off };
            if !value.is_null() {
                variables.entry(*name).or_insert_with(|| value.clone());
            }
        }
    }
}

impl EffortVariable {
    /// Returns the effort to use for the one at index `asked` of [`EFFORTS`]. `None` if the template takes no
    /// effort.
    ///
    /// An effort that the template refuses is replaced by the nearest that it takes; of two, by the higher
    /// one. A template may also take an effort as if it were missing. Such an effort is replaced if it lies
    /// between two that the template knows, and `minimal` by `low`.
    fn nearest(&self, asked: usize) -> Option<&'static str> {
        let level = |effort: &&str| EFFORTS.iter().position(|known| known == effort).unwrap_or(0);
        let nearest = |of: &[&'static str]| {
            of.iter().copied().min_by_key(|effort| {
                let level = level(effort);
                (level.abs_diff(asked), level < asked)
            })
        };
        let effort = EFFORTS[asked];
        if !self.taken.contains(&effort) {
            return nearest(&self.taken);
        }
        let known = &self.distinct;
        let is_between =
            known.iter().any(|known| level(known) < asked) && known.iter().any(|known| level(known) > asked);
        let is_below = effort == "minimal" && known.contains(&"low");
        if known.contains(&effort) || !is_between && !is_below {
            return Some(effort);
        }
        nearest(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(given: Value) -> Map<String, Value> {
        match given {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    /// Returns the variables that a template gets.
    fn set(found: &ThinkingVariables, given: Value) -> Value {
        let mut variables = variables(given);
        found.set(&mut variables);
        variables.into()
    }

    /// A template that takes some efforts and otherwise fails.
    fn efforts(known: &'static [&str]) -> ThinkingVariables {
        let render = |variables: Map<String, Value>| match variables.get(EFFORT).and_then(Value::as_str) {
            Some(effort) if !known.contains(&effort) => None,
            effort => Some(effort.unwrap_or_default().to_owned()),
        };
        ThinkingVariables::of(&render, false)
    }

    #[test]
    fn an_unknown_effort_becomes_the_nearest() {
        let qwen = efforts(&["low", "medium", "xhigh"]);
        for (given, expected) in [
            ("none", "low"),
            ("minimal", "low"),
            ("medium", "medium"),
            ("high", "xhigh"),
            ("max", "xhigh"),
            ("own", "own"),
        ] {
            assert_eq!(set(&qwen, json!({ EFFORT: given })), json!({ EFFORT: expected }), "{given}");
        }
        let any = ThinkingVariables::of(&|variables| Some(format!("{variables:?}")), false);
        assert_eq!(set(&any, json!({ EFFORT: "xhigh" })), json!({ EFFORT: "xhigh" }));
        let harmony = ThinkingVariables::of(&|variables| Some(format!("{variables:?}")), true);
        assert_eq!(set(&harmony, json!({ EFFORT: "xhigh" })), json!({ EFFORT: "high" }));
    }

    /// A template that takes unknown efforts as if none was asked for.
    #[test]
    fn an_effort_without_effect_becomes_one_between_others() {
        let glm = ThinkingVariables::of(
            &|variables| {
                let effort = variables.get(EFFORT).and_then(Value::as_str);
                Some(effort.filter(|effort| ["low", "high"].contains(effort)).unwrap_or("max").to_owned())
            },
            false,
        );
        for (given, expected) in [("minimal", "low"), ("medium", "high"), ("high", "high"), ("max", "max")] {
            assert_eq!(set(&glm, json!({ EFFORT: given })), json!({ EFFORT: expected }), "{given}");
        }
    }

    /// A template that checks the effort only if thoughts are on.
    #[test]
    fn efforts_are_found_with_thoughts() {
        let render = |variables: Map<String, Value>| {
            let effort = variables.get(EFFORT).and_then(Value::as_str).unwrap_or("low");
            let is_on = variables.get(ENABLE) == Some(&json!(true));
            (!is_on || effort == "low" || effort == "xhigh").then(|| effort.to_owned())
        };
        let found = ThinkingVariables::of(&render, false);
        let given = json!({ ENABLE: true, EFFORT: "high" });
        assert_eq!(set(&found, given), json!({ ENABLE: true, EFFORT: "xhigh" }));
    }

    #[test]
    fn an_effort_may_have_another_name() {
        let kimi = |variables: Map<String, Value>| match variables.get(OTHER_EFFORT).and_then(Value::as_str) {
            Some(effort) if !["low", "high", "max"].contains(&effort) => None,
            effort => Some(effort.unwrap_or("max").to_owned()),
        };
        let found = ThinkingVariables::of(&kimi, false);
        let expected = json!({ EFFORT: "medium", OTHER_EFFORT: "high" });
        assert_eq!(set(&found, json!({ EFFORT: "medium" })), expected);
    }

    #[test]
    fn an_effort_may_be_the_switch() {
        let hunyuan = efforts(&["no_think", "low", "high"]);
        for (given, expected) in [
            (json!({ ENABLE: false }), json!({ ENABLE: false, EFFORT: "no_think" })),
            (json!({ ENABLE: false, EFFORT: "none" }), json!({ ENABLE: false, EFFORT: "no_think" })),
            (json!({ ENABLE: true }), json!({ ENABLE: true, EFFORT: "high" })),
            (json!({ ENABLE: true, EFFORT: "low" }), json!({ ENABLE: true, EFFORT: "low" })),
            (json!({ EFFORT: "medium" }), json!({ EFFORT: "high" })),
            (json!({}), json!({})),
        ] {
            assert_eq!(set(&hunyuan, given.clone()), expected, "{given}");
        }
    }

    #[test]
    fn a_template_gets_its_own_switches() {
        let found = |name: &'static str| {
            let render = move |variables: Map<String, Value>| Some(format!("{:?}", variables.get(name)));
            ThinkingVariables::of(&render, false)
        };
        for (name, off, on) in [
            ("thinking", json!({ "thinking": false }), json!({ "thinking": true })),
            ("thinking_mode", json!({ "thinking_mode": "disabled" }), json!({ "thinking_mode": "enabled" })),
            ("reasoning", json!({ "reasoning": false }), json!({ "reasoning": true })),
            ("thinking_budget", json!({ "thinking_budget": 0 }), json!({})),
            ("other", json!({}), json!({})),
        ] {
            for (enabled, mut expected) in [(false, off), (true, on)] {
                expected[ENABLE] = enabled.into();
                assert_eq!(set(&found(name), json!({ ENABLE: enabled })), expected, "{name}");
            }
        }
        let given = json!({ ENABLE: false, "thinking": true });
        assert_eq!(set(&found("thinking"), given.clone()), given);
    }
}
