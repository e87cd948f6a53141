//! Names and groups of the scenarios.

use thiserror::Error;

use super::Harness;

/// Name of a scenario, name of its group, and whether the group `default` has the scenario.
type Named = (&'static str, &'static str, bool);

const DIRECTIVES: &[Named] = &[
    ("show_form", "simple", true),
    ("toast", "simple", true),
    ("patch_draft", "typical", true),
    ("request_upload", "extreme", true),
];

const TOOLS: &[Named] = &[
    ("happy_path", "simple", true),
    ("missing_workspace_id", "typical", true),
    ("type_error_recovery", "typical", false),
    ("long_arguments_guard", "extreme", false),
    (CONTROL, "simple", true),
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
/// The groups are `simple`, `typical` and `extreme`. `all` selects all scenarios. `default` selects
/// all scenarios of directives, and a subset of the tools' scenarios that costs few requests.
///
/// ```
/// use formwork_eval::{Harness, select_scenarios};
/// assert_eq!(
///     select_scenarios(Harness::Tools, &["extreme", "happy_path"])?,
///     ["happy_path", "long_arguments_guard"]
/// );
/// assert_eq!(select_scenarios(Harness::Directives, &["default"])?.len(), 4);
/// assert_eq!(select_scenarios(Harness::Tools, &["default"])?.len(), 3);
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
    let is_asked = |&&(name, group, is_default): &&Named, asked: &str| {
        asked == "all" || (asked == "default" && is_default) || asked == name || asked == group
    };
    for asked in asked.iter().map(AsRef::as_ref) {
        if !all.iter().any(|scenario| is_asked(&scenario, asked)) {
            let known = all.iter().map(|&(name, ..)| name).collect();
            return Err(UnknownScenario { name: asked.to_owned(), known });
        }
    }
    let wanted = all.iter().filter(|scenario| asked.iter().any(|asked| is_asked(scenario, asked.as_ref())));
    Ok(wanted.map(|&(name, ..)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_scenarios() {
        for harness in [Harness::Directives, Harness::Tools] {
            let select = |asked: &[&str]| select_scenarios(harness, asked).expect("known names");
            assert_eq!(select(&["simple", "typical", "extreme"]), select(&["all"]));
            let (default, all) = (select(&["default"]), select(&["all"]));
            assert!(default.iter().all(|name| all.contains(name)), "{default:?}");
            assert_eq!(default.len() < all.len(), harness == Harness::Tools, "a cheap subset of the tools");
        }
        let error =
            select_scenarios(Harness::Tools, &["toast"]).expect_err("a scenario of the other harness");
        assert!(
            error.to_string().starts_with("unknown scenario or group `toast`; expected one of default, "),
            "{error}"
        );
    }
}
