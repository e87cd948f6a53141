//! Names and groups of the scenarios.

use thiserror::Error;

use super::Harness;

/// Name of a scenario and name of its group.
type Named = (&'static str, &'static str);

const DIRECTIVES: &[Named] = &[
    ("show_form", "simple"),
    ("toast", "simple"),
    ("patch_draft", "typical"),
    ("request_upload", "extreme"),
];

const TOOLS: &[Named] = &[
    ("happy_path", "simple"),
    ("missing_workspace_id", "typical"),
    ("type_error_recovery", "typical"),
    ("long_arguments_guard", "extreme"),
    (CONTROL, "simple"),
];

/// Name of the tools scenario that serves as a control, because it has no tools.
pub(super) const CONTROL: &str = "chat_only";

/// Error for a name that is neither a scenario of the harness nor a group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown scenario or group `{name}`; expected one of default, all, simple, typical, extreme, {}", known.join(", "))]
pub struct UnknownScenario {
    /// The unknown name.
    pub name: String,
    /// Names of the known scenarios of the harness.
    pub known: Vec<&'static str>,
}

/// Returns the scenarios of a harness that `asked` names, either by their names or by their groups.
/// Each scenario occurs once. Easy scenarios come first, and the control comes last.
///
/// The groups are `simple`, `typical` and `extreme`. `default` and `all` select all scenarios.
///
/// ```
/// use formwork_eval::{Harness, select_scenarios};
/// assert_eq!(
///     select_scenarios(Harness::Tools, &["extreme", "happy_path"])?,
///     ["happy_path", "long_arguments_guard"]
/// );
/// assert_eq!(select_scenarios(Harness::Directives, &["default"])?.len(), 4);
/// # Ok::<(), formwork_eval::UnknownScenario>(())
/// ```
///
/// # Errors
/// Returns an error if a name is neither a scenario nor a group.
pub fn select_scenarios<S: AsRef<str>>(
    harness: Harness,
    asked: &[S],
) -> Result<Vec<&'static str>, UnknownScenario> {
    let all = match harness {
        Harness::Directives => DIRECTIVES,
        Harness::Tools => TOOLS,
    };
    let is_asked = |&&(name, group): &&Named, asked: &str| {
        matches!(asked, "default" | "all") || asked == name || asked == group
    };
    for asked in asked.iter().map(AsRef::as_ref) {
        if !all.iter().any(|scenario| is_asked(&scenario, asked)) {
            let known = all.iter().map(|&(name, _)| name).collect();
            return Err(UnknownScenario { name: asked.to_owned(), known });
        }
    }
    let wanted = all.iter().filter(|scenario| asked.iter().any(|asked| is_asked(scenario, asked.as_ref())));
    Ok(wanted.map(|&(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_scenarios() {
        for harness in [Harness::Directives, Harness::Tools] {
            let select = |asked: &[&str]| select_scenarios(harness, asked).expect("known names");
            assert_eq!(select(&["simple", "typical", "extreme"]), select(&["default"]));
            assert_eq!(select(&["all"]), select(&["default"]));
        }
        let error =
            select_scenarios(Harness::Tools, &["toast"]).expect_err("a scenario of the other harness");
        assert!(
            error.to_string().starts_with("unknown scenario or group `toast`; expected one of default, "),
            "{error}"
        );
    }
}
