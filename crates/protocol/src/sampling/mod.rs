//! Sampling profiles: named values of temperature, top-p, top-k and min-p, and the models that they are meant for.
//!
//! A profile that was made for one family of models says little about another, so a profile applies only to the models that its
//! patterns name unless the caller wants otherwise. Profiles are picked by name or by group ([`Profiles::select`]).
//!
//! # What is not here
//! Values that nobody has published: `deepseek_v3_2_general_conversation`, `deepseek_v3_2_creative_writing` and `glm_4_7_recommended`
//! are known by name only, so they are not among the predefined ones; a configuration file may add them.

mod pattern;
mod predefined;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use pattern::ModelPattern;
pub use predefined::DEFAULT_PROFILE;

use crate::Body;

/// How tokens are chosen; what is `None` is left to the backend.
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
    /// 0 always takes the likeliest token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The share of probability that the likeliest tokens must reach together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// How many of the likeliest tokens are kept; 0 keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// How likely a token must be relative to the likeliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f64>,
}

/// A value that no sampler takes.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("`{field}` is {given}, and must be {wanted}")]
pub struct SamplingError {
    /// The name of the value.
    pub field: &'static str,
    /// The value.
    pub given: f64,
    /// What it must be.
    pub wanted: &'static str,
}

impl Sampling {
    /// These values, but for those that `above` has.
    #[must_use]
    pub fn overridden_by(self, above: Self) -> Self {
        Self {
            temperature: above.temperature.or(self.temperature),
            top_p: above.top_p.or(self.top_p),
            top_k: above.top_k.or(self.top_k),
            min_p: above.min_p.or(self.min_p),
        }
    }

    /// The fields of a request.
    pub fn options(&self) -> Body {
        match serde_json::to_value(self) {
            Ok(Value::Object(options)) => options,
            // Four numbers always serialize.
            _ => Body::new(),
        }
    }

    /// Whether all values are such that a sampler takes them.
    ///
    /// # Errors
    /// With the first that is not.
    pub fn check(&self) -> Result<(), SamplingError> {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let bounded = |field, value: Option<f64>, good: &dyn Fn(f64) -> bool, wanted| match value {
            Some(given) if !good(given) => Err(SamplingError { field, given, wanted }),
            _ => Ok(()),
        };
        let temperature = |value: f64| value.is_finite() && value >= 0.0;
        bounded("temperature", self.temperature, &temperature, "a number from 0")?;
        bounded("top_p", self.top_p, &share, "a number between 0 and 1")?;
        bounded("min_p", self.min_p, &share, "a number between 0 and 1")
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

/// The groups by which profiles can be picked, besides those that profiles name.
pub const GROUPS: [&str; 5] = [DEFAULT_PROFILE, "recommended", "conversation", "creative", "tool_calling"];

/// A profile: values with a name, and what they are for.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingProfile {
    /// Its name.
    pub name: String,
    /// The groups that it is part of.
    pub groups: Vec<String>,
    /// The models that it is for; none are all.
    pub models: Vec<ModelPattern>,
    /// Its values.
    pub sampling: Sampling,
}

impl SamplingProfile {
    /// Whether it is meant for `model`.
    pub fn applies_to(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| pattern.matches(model))
    }
}

/// A name that is neither a profile's nor a group's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no sampling profile or group `{name}`, but {}", known.join(", "))]
pub struct UnknownProfile {
    /// The name.
    pub name: String,
    /// Those that there are.
    pub known: Vec<String>,
}

/// A set of profiles with different names.
///
/// ```
/// use formwork_protocol::sampling::Profiles;
/// let profiles = Profiles::predefined();
/// let names = |asked| -> Vec<_> { profiles.select(&[asked]).unwrap().iter().map(|profile| profile.name.as_str()).collect() };
/// assert_eq!(names("default"), ["default"]);
/// assert_eq!(names("creative"), ["gemini_2_5_flash_creative"]);
/// assert!(profiles.get("gemini_2_5_flash_creative").unwrap().applies_to("google/gemini-2.5-flash:nitro"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles(Vec<SamplingProfile>);

impl Profiles {
    /// Those that come with the library.
    pub fn predefined() -> Self {
        Self(predefined::profiles())
    }

    /// Adds a profile, in place of one with its name.
    pub fn insert(&mut self, profile: SamplingProfile) {
        match self.0.iter_mut().find(|known| known.name == profile.name) {
            Some(known) => *known = profile,
            None => self.0.push(profile),
        }
    }

    /// The profile of this name.
    pub fn get(&self, name: &str) -> Option<&SamplingProfile> {
        self.0.iter().find(|profile| profile.name == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &SamplingProfile> {
        self.0.iter()
    }

    /// The profiles with these names or in these groups, each once, in the order in which they were asked for.
    ///
    /// # Errors
    /// When a name is neither. One of [`GROUPS`] may be empty.
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
    fn values_are_checked() {
        let with = |json: &str| serde_json::from_str::<Sampling>(json).expect("values").check();
        assert!(with(r#"{"temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0}"#).is_ok());
        let error = with(r#"{"temperature": -1}"#).expect_err("below 0");
        assert_eq!(error.to_string(), "`temperature` is -1, and must be a number from 0");
        for wrong in [r#"{"top_p": 1.1}"#, r#"{"min_p": -0.1}"#] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn profiles_are_picked_once_by_name_or_group() {
        let profiles = Profiles::predefined();
        assert_eq!(names(&profiles, &["default", "default", "grok_default"]), ["default", "grok_default"]);
        let recommended = names(&profiles, &["qwen_recommended", "recommended"]);
        assert_eq!(recommended.iter().filter(|name| *name == "qwen_recommended").count(), 1);
        assert_eq!(recommended[0], "qwen_recommended");
        assert_eq!(names(&profiles, &["tool_calling"]), ["glm_4_7_flash_tool_calling"]);
        assert!(names(&profiles, &["conversation"]).is_empty(), "no values are published for any");
        let error = profiles.select(&["defualt"]).expect_err("no such profile");
        assert!(
            error.to_string().starts_with("there is no sampling profile or group `defualt`, but default, ")
        );
    }

    #[test]
    fn a_profile_of_the_same_name_is_replaced() {
        let mut profiles = Profiles::predefined();
        let count = profiles.iter().count();
        let mut changed = profiles.get("grok_default").expect("predefined").clone();
        changed.sampling.temperature = Some(0.9);
        profiles.insert(changed.clone());
        assert_eq!((profiles.get("grok_default"), profiles.iter().count()), (Some(&changed), count));
    }
}
