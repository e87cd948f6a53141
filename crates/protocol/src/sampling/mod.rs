//! Sampling profiles: named values of temperature, top-p, top-k and min-p for a set of models.
//!
//! Values tuned for one family of models say little about another, so each profile has patterns for
//! its models. [`SamplingProfile::applies_to`] checks the patterns, and callers may ignore the
//! result. [`Profiles::select`] picks profiles by name or by group.
//!
//! # Limits
//! Only published values are predefined. A configuration file can add profiles and replace them.

mod pattern;
mod predefined;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use pattern::ModelPattern;
pub use predefined::DEFAULT_PROFILE;

use crate::Body;
use crate::catalogue::{self, CatalogueEntry};

/// Sampling parameters. For a field that is `None`, the backend chooses the value.
///
/// ```
/// use formwork_protocol::sampling::Sampling;
/// let profile = Sampling { temperature: Some(0.7), top_p: Some(0.8), ..Sampling::default() };
/// let wanted = Sampling { temperature: Some(0.0), ..Sampling::default() };
/// assert_eq!(profile.overridden_by(wanted).options()["temperature"], 0.0);
/// assert_eq!(profile.to_string(), "t=0.7 top_p=0.8");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Softmax temperature; 0 always selects the most likely token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling: keeps the smallest set of most likely tokens whose total probability
    /// reaches this value, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Number of most likely tokens to keep; 0 keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Minimum probability of a token, as a fraction of the most likely token's probability, from 0
    /// to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f64>,
}

/// Error for a sampling value outside its range.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("`{field}` is {given}; expected {wanted}")]
pub struct SamplingError {
    /// Name of the field, such as `top_p`.
    pub field: &'static str,
    /// The rejected value.
    pub given: f64,
    /// Description of the accepted range, such as `a number from 0 to 1`.
    pub wanted: &'static str,
}

impl Sampling {
    /// Returns the values of `self`, except that each value set in `above` replaces the value of
    /// `self`.
    #[must_use]
    pub fn overridden_by(self, above: Self) -> Self {
        Self {
            temperature: above.temperature.or(self.temperature),
            top_p: above.top_p.or(self.top_p),
            top_k: above.top_k.or(self.top_k),
            min_p: above.min_p.or(self.min_p),
        }
    }

    /// Returns the values that are set, as fields of a chat request.
    pub fn options(&self) -> Body {
        match serde_json::to_value(self) {
            Ok(Value::Object(options)) => options,
            // Four numbers always serialize.
            _ => Body::new(),
        }
    }

    /// Checks that each value that is set is in its range. `top_k` may have any value.
    ///
    /// # Errors
    /// Returns an error for the first value that is out of range.
    pub fn check(&self) -> Result<(), SamplingError> {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let bounded = |field, value: Option<f64>, good: &dyn Fn(f64) -> bool, wanted| match value {
            Some(given) if !good(given) => Err(SamplingError { field, given, wanted }),
            _ => Ok(()),
        };
        let temperature = |value: f64| value.is_finite() && value >= 0.0;
        bounded("temperature", self.temperature, &temperature, "a number of at least 0")?;
        bounded("top_p", self.top_p, &share, "a number from 0 to 1")?;
        bounded("min_p", self.min_p, &share, "a number from 0 to 1")
    }
}

impl std::fmt::Display for Sampling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = |name: &str, value: Option<f64>| value.map(|value| format!("{name}={value}"));
        let values = [
            value("t", self.temperature),
            value("top_p", self.top_p),
            value("top_k", self.top_k.map(f64::from)),
            value("min_p", self.min_p),
        ];
        let values: Vec<_> = values.into_iter().flatten().collect();
        f.write_str(if values.is_empty() { "no overrides" } else { "" })?;
        f.write_str(&values.join(" "))
    }
}

/// Names of the groups that [`Profiles::select`] accepts even if no profile belongs to them.
/// Profiles may also belong to groups with other names.
pub const GROUPS: [&str; 5] = [DEFAULT_PROFILE, "recommended", "conversation", "creative", "tool_calling"];

/// Named sampling values and the models they are meant for.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingProfile {
    /// Unique name, such as `grok_default`.
    pub name: String,
    /// Names of the groups that contain the profile.
    pub groups: Vec<String>,
    /// Patterns of the models to which the profile applies; an empty list means every model.
    pub models: Vec<ModelPattern>,
    /// Sampling values that the profile sets.
    pub sampling: Sampling,
}

impl SamplingProfile {
    /// Reports whether the profile is meant for the model named `model`.
    pub fn applies_to(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| pattern.matches(model))
    }
}

/// Error for a name that is neither a profile nor a group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown sampling profile or group `{name}`; expected one of {}", known.join(", "))]
pub struct UnknownProfile {
    /// Name that is neither a profile nor a group.
    pub name: String,
    /// Names of all profiles and predefined groups.
    pub known: Vec<String>,
}

/// Error of [`Profiles::sampling`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// No profile has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownProfile),
    /// The profile is meant for other models.
    #[error("the sampling profile `{profile}` does not apply to `{model}`; it is for {wanted}")]
    NotApplicable {
        /// Name of the profile.
        profile: String,
        /// Name of the model.
        model: String,
        /// Patterns of the models to which the profile applies.
        wanted: String,
    },
}

/// Name that stands for the profile that the catalogue recommends for a model.
pub const RECOMMENDED: &str = "recommended";

/// Sampling profiles with unique names.
///
/// ```
/// use formwork_protocol::sampling::Profiles;
/// let profiles = Profiles::predefined();
/// let names = |asked| -> Vec<_> {
///     profiles.select(&[asked]).unwrap().iter().map(|profile| profile.name.as_str()).collect()
/// };
/// assert_eq!(names("default"), ["default"]);
/// assert_eq!(names("creative"), ["deepseek_v3_2_creative_writing", "gemini_2_5_flash_creative"]);
/// let creative = profiles.get("gemini_2_5_flash_creative").unwrap();
/// assert!(creative.applies_to("google/gemini-2.5-flash:nitro"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles(Vec<SamplingProfile>);

impl Profiles {
    /// Returns the profiles that are built into this library.
    pub fn predefined() -> Self {
        Self(predefined::profiles())
    }

    /// Adds `profile`, or replaces the profile with the same name.
    pub fn insert(&mut self, profile: SamplingProfile) {
        match self.0.iter_mut().find(|known| known.name == profile.name) {
            Some(known) => *known = profile,
            None => self.0.push(profile),
        }
    }

    /// Returns the profile called `name`, or `None` for an unknown name.
    pub fn get(&self, name: &str) -> Option<&SamplingProfile> {
        self.0.iter().find(|profile| profile.name == name)
    }

    /// Iterates over all profiles in the order of their insertion. A replaced profile keeps its
    /// place.
    pub fn iter(&self) -> impl Iterator<Item = &SamplingProfile> {
        self.0.iter()
    }

    /// Returns the sampling values of the profile called `name` for the model called `model`. The
    /// name [`RECOMMENDED`] selects the catalogue's first profile for the model.
    ///
    /// # Errors
    /// Returns an error if there is no such profile, or if it is meant for other models.
    pub fn sampling(&self, name: &str, model: &str) -> Result<Sampling, ProfileError> {
        let is_recommended = name == RECOMMENDED && self.get(name).is_none();
        let recommended = catalogue::find(model).map_or(DEFAULT_PROFILE, CatalogueEntry::profile);
        let name = if is_recommended { recommended } else { name };
        let Some(profile) = self.get(name) else {
            let names = self.0.iter().map(|profile| profile.name.clone());
            let known = names.chain([RECOMMENDED.to_owned()]).collect();
            return Err(UnknownProfile { name: name.to_owned(), known }.into());
        };
        if profile.applies_to(model) {
            return Ok(profile.sampling);
        }
        let wanted = profile.models.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(ProfileError::NotApplicable { profile: name.to_owned(), model: model.to_owned(), wanted })
    }

    /// Returns the profiles that `asked` selects. Each element of `asked` is the name of a profile
    /// or, if no profile has this name, of a group.
    ///
    /// The result contains each profile once, in the order of `asked`. The profiles of a group are
    /// in insertion order.
    ///
    /// # Errors
    /// Returns an error if a name is neither a profile nor a group. An empty group of [`GROUPS`] is
    /// not an error.
    pub fn select<S: AsRef<str>>(&self, asked: &[S]) -> Result<Vec<&SamplingProfile>, UnknownProfile> {
        let mut selected: Vec<&SamplingProfile> = Vec::new();
        for name in asked.iter().map(AsRef::as_ref) {
            let found: Vec<_> = match self.get(name) {
                Some(profile) => vec![profile],
                None => {
                    self.0.iter().filter(|profile| profile.groups.iter().any(|group| group == name)).collect()
                }
            };
            if found.is_empty() && !GROUPS.contains(&name) {
                let names = self.0.iter().map(|profile| profile.name.clone());
                let known = names.chain(GROUPS[1..].iter().map(|&group| group.to_owned())).collect();
                return Err(UnknownProfile { name: name.to_owned(), known });
            }
            for profile in found {
                if !selected.iter().any(|known| known.name == profile.name) {
                    selected.push(profile);
                }
            }
        }
        Ok(selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(profiles: &Profiles, asked: &[&str]) -> Vec<String> {
        let selected = profiles.select(asked).expect("known names");
        selected.into_iter().map(|profile| profile.name.clone()).collect()
    }

    #[test]
    fn rejects_values_out_of_range() {
        let with = |json: &str| serde_json::from_str::<Sampling>(json).expect("values").check();
        assert!(with(r#"{"temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0}"#).is_ok());
        let error = with(r#"{"temperature": -1}"#).expect_err("below 0");
        assert_eq!(error.to_string(), "`temperature` is -1; expected a number of at least 0");
        for wrong in [r#"{"top_p": 1.1}"#, r#"{"min_p": -0.1}"#] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn selects_each_profile_once_by_name_or_group() {
        let profiles = Profiles::predefined();
        assert_eq!(names(&profiles, &["default", "default", "grok_default"]), ["default", "grok_default"]);
        let recommended = names(&profiles, &["qwen_recommended", "recommended"]);
        assert_eq!(recommended.iter().filter(|name| *name == "qwen_recommended").count(), 1);
        assert_eq!(recommended[0], "qwen_recommended");
        assert_eq!(names(&profiles, &["tool_calling"]), ["glm_4_7_flash_tool_calling"]);
        assert_eq!(names(&profiles, &["conversation"]), ["deepseek_v3_2_general_conversation"]);
        let error = profiles.select(&["defualt"]).expect_err("no such profile");
        assert!(
            error
                .to_string()
                .starts_with("unknown sampling profile or group `defualt`; expected one of default, ")
        );
    }

    #[test]
    fn a_profile_is_for_its_models_only() {
        let profiles = Profiles::predefined();
        let of = |name, model| profiles.sampling(name, model);
        let gemini = "google/gemini-2.5-flash:nitro";
        let creative = of("gemini_2_5_flash_creative", gemini).expect("its own profile");
        assert_eq!(creative.temperature, Some(1.5));
        assert_eq!(of(RECOMMENDED, gemini), Ok(creative));
        assert_eq!(of(RECOMMENDED, "unheard-of"), Ok(Sampling::default()));
        assert_eq!(of(DEFAULT_PROFILE, "unheard-of"), Ok(Sampling::default()));
        let error = of("grok_default", gemini).expect_err("another model's").to_string();
        assert!(
            error.starts_with("the sampling profile `grok_default` does not apply to `google/"),
            "{error}"
        );
        let error = of("grok", gemini).expect_err("unknown").to_string();
        assert!(error.starts_with("unknown sampling profile or group `grok`; expected one of "), "{error}");
    }

    #[test]
    fn replaces_a_profile_of_the_same_name() {
        let mut profiles = Profiles::predefined();
        let count = profiles.iter().count();
        let mut changed = profiles.get("grok_default").expect("predefined").clone();
        changed.sampling.temperature = Some(0.9);
        profiles.insert(changed.clone());
        assert_eq!((profiles.get("grok_default"), profiles.iter().count()), (Some(&changed), count));
    }
}
