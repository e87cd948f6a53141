use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{AdaptError, Kind};
use super::tape::Syntax;

/// Maximum value of `max_unescape_depth`.
const UNESCAPE_DEPTH: u8 = 8;

/// Options of an [`Adapter`](super::Adapter).
///
/// ```
/// use formwork_adapt::{AdaptOptions, Coercion, Conversion, Tolerance};
///
/// let block: Coercion = serde_json::from_str(r#"{"tolerant_level": 1, "allow": {"array": ["wrap"]}}"#)?;
/// let options = AdaptOptions::minimal().with_coercion(&block);
/// assert_eq!(options.tolerance, Tolerance::Json5);
/// assert!(options.allow.has(Conversion::Wrap) && !options.allow.has(Conversion::StrToInt));
///
/// let error = serde_json::from_str::<Coercion>(r#"{"allow": {"integer": ["str->date"]}}"#).unwrap_err();
/// assert!(error.to_string().contains("unknown variant `str->date`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptOptions {
    /// Overall level of adaptation.
    pub level: OutputProcessing,
    /// Syntax that is accepted as JSON. Applies at level `full`.
    pub tolerance: Tolerance,
    /// Conversions that are allowed.
    pub allow: Allow,
    /// Maximum number of times that JSON inside a string is unescaped, at most 8.
    pub max_unescape_depth: u8,
    /// Choice among several branches that match after conversion. Applies at level `full`.
    pub anyof_strategy: AnyOfStrategy,
    /// Choice among several different values in a text that match the schema.
    pub prefer: Prefer,
    /// True to accept a value although the text ends inside it. Applies at tolerance 2.
    pub allow_truncated: bool,
    /// True to accept integers of more than 64 bits. Then [`written`](crate::Adaptation::written)
    /// has all of their digits, and [`value`](crate::Adaptation::value) has the nearest double.
    /// Otherwise such an integer is an error.
    pub wide_integers: bool,
    /// If true, the adaptation is only recorded. The value and the verdict are those of level
    /// `off`.
    pub shadow: bool,
    /// Limits on size, depth, time and branches.
    pub limits: AdaptLimits,
}

/// Level of processing for an output that does not match its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputProcessing {
    /// No processing.
    Off,
    /// Finds, unescapes and parses JSON, and makes simple conversions.
    Minimal,
    /// Also decodes tolerantly, tries branches of `anyOf` and `oneOf`, and converts strings to
    /// lists.
    Full,
}

/// Choice of the `anyOf` or `oneOf` branch for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnyOfStrategy {
    /// The first branch that the value matches.
    FirstPass,
    /// The only branch that the value matches. Several matching branches are an error.
    Unique,
}

/// Choice among several different values in a text that all match the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// None of them: several values are an error, which lists their places.
    Only,
    /// The first value in the text.
    First,
    /// The last value in the text.
    Last,
    /// The value with the longest source text. Several of this length are an error.
    Largest,
}

/// Limits of an adaptation. A text that exceeds a limit is not adapted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptLimits {
    /// Maximum size of a text in bytes. The default is 4 MiB.
    pub max_bytes: usize,
    /// Maximum nesting depth. The default is 128, which is also the upper bound.
    pub max_depth: usize,
    /// Time limit for all stages together. The default is 1 second. The time is checked between
    /// stages, branches and conversions.
    pub max_time: Duration,
    /// Maximum number of branches of `anyOf` and `oneOf` that are tried. The default is 10,000.
    pub max_trials: usize,
}

impl Default for AdaptLimits {
    fn default() -> Self {
        Self { max_bytes: 4 << 20, max_depth: 128, max_time: Duration::from_secs(1), max_trials: 10_000 }
    }
}

/// Syntax that is accepted as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Tolerance {
    /// Only JSON (level 0).
    Strict,
    /// JSON, JSON5, and notations of other languages that have only one meaning (level 1).
    Json5,
    /// Also broken JSON, as far as the meaning is clear (level 2).
    Repair,
}

impl TryFrom<u8> for Tolerance {
    type Error = AdaptError;

    fn try_from(given: u8) -> Result<Self, AdaptError> {
        match given {
            0 => Ok(Self::Strict),
            1 => Ok(Self::Json5),
            2 => Ok(Self::Repair),
            _ => Err(Kind::Tolerance { given }.into()),
        }
    }
}

impl From<Tolerance> for u8 {
    fn from(tolerance: Tolerance) -> Self {
        match tolerance {
            Tolerance::Strict => 0,
            Tolerance::Json5 => 1,
            Tolerance::Repair => 2,
        }
    }
}

/// A conversion of a value whose type differs from the schema's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// `"42"` → 42, if the schema expects an integer. The string must be an integer as JSON writes
    /// it.
    StrToInt,
    /// `"3.14"` → 3.14, if the schema expects a number. The string must be a number as JSON writes
    /// it.
    StrToFloat,
    /// `"true"`, `"1"` → true and `"false"`, `"0"` → false, if the schema expects a boolean.
    StrToBool,
    /// `"[1, 2]"` → `[1, 2]`, if the schema expects an array.
    StrToList,
    /// T → `[T]`, if the schema expects an array. Null is not wrapped, because it could also mean
    /// an empty array.
    Wrap,
}

impl Conversion {
    /// All conversions.
    pub const ALL: [Self; 5] =
        [Self::StrToInt, Self::StrToFloat, Self::StrToBool, Self::StrToList, Self::Wrap];

    /// Returns the name used in options and records, such as `str->int`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StrToInt => "str->int",
            Self::StrToFloat => "str->float",
            Self::StrToBool => "str->bool",
            Self::StrToList => "str->list",
            Self::Wrap => "wrap",
        }
    }
}

/// A set of allowed conversions.
///
/// Deserialized from an object with a list for each target type:
/// `{"integer": ["str->int"], "array": ["str->list", "wrap"]}`.
/// Conversions that are not listed are not allowed. Unknown names are an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
pub struct Allow(Vec<Conversion>);

impl Allow {
    /// Returns the empty set.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns the conversions with only one meaning: strings to integers, numbers and booleans.
    pub fn scalars() -> Self {
        [Conversion::StrToInt, Conversion::StrToFloat, Conversion::StrToBool].into_iter().collect()
    }

    /// Reports whether `conversion` is allowed.
    pub fn has(&self, conversion: Conversion) -> bool {
        self.0.contains(&conversion)
    }

    /// Adds a conversion.
    #[must_use]
    pub fn with(mut self, conversion: Conversion) -> Self {
        if !self.has(conversion) {
            self.0.push(conversion);
        }
        self
    }
}

impl FromIterator<Conversion> for Allow {
    fn from_iter<I: IntoIterator<Item = Conversion>>(conversions: I) -> Self {
        conversions.into_iter().fold(Self::none(), Self::with)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Wire {
    integer: Vec<ToInteger>,
    number: Vec<ToNumber>,
    boolean: Vec<ToBoolean>,
    array: Vec<ToArray>,
}

#[derive(Deserialize)]
enum ToInteger {
    #[serde(rename = "str->int")]
    Str,
}

#[derive(Deserialize)]
enum ToNumber {
    #[serde(rename = "str->float")]
    Str,
}

#[derive(Deserialize)]
enum ToBoolean {
    #[serde(rename = "str->bool")]
    Str,
}

#[derive(Deserialize)]
enum ToArray {
    #[serde(rename = "str->list")]
    Str,
    #[serde(rename = "wrap", alias = "T->[T]")]
    Wrap,
}

impl From<Wire> for Allow {
    fn from(wire: Wire) -> Self {
        let integer = wire.integer.iter().map(|ToInteger::Str| Conversion::StrToInt);
        let number = wire.number.iter().map(|ToNumber::Str| Conversion::StrToFloat);
        let boolean = wire.boolean.iter().map(|ToBoolean::Str| Conversion::StrToBool);
        let array = wire.array.iter().map(|conversion| match conversion {
            ToArray::Str => Conversion::StrToList,
            ToArray::Wrap => Conversion::Wrap,
        });
        integer.chain(number).chain(boolean).chain(array).collect()
    }
}

/// The `coercion` block of a step. Fields that are `None` leave the option unchanged.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Coercion {
    /// Tolerance level: 0, 1 or 2.
    pub tolerant_level: Option<Tolerance>,
    /// Conversions that are allowed, instead of the previous ones.
    pub allow: Option<Allow>,
    /// Maximum number of times that JSON inside a string is unescaped.
    pub max_unescape_depth: Option<Depth>,
    /// Choice among several branches that match after conversion.
    pub anyof_strategy: Option<AnyOfStrategy>,
    /// Choice among several different values in a text that match the schema.
    pub prefer: Option<Prefer>,
    /// True to accept a value although the text ends inside it.
    pub allow_truncated: Option<bool>,
}

/// Maximum number of times that a string is unescaped, from 0 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub struct Depth(u8);

impl Depth {
    /// Returns the number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Depth {
    type Error = AdaptError;

    fn try_from(given: u8) -> Result<Self, AdaptError> {
        if given <= UNESCAPE_DEPTH {
            return Ok(Self(given));
        }
        Err(Kind::Depth { given, limit: UNESCAPE_DEPTH }.into())
    }
}

impl AdaptOptions {
    /// Changes nothing. The text must be valid JSON.
    pub fn off() -> Self {
        Self::of_level(OutputProcessing::Off)
    }

    /// Extracts, unescapes and parses JSON. Strings are converted to integers, numbers and
    /// booleans.
    pub fn minimal() -> Self {
        Self::of_level(OutputProcessing::Minimal)
    }

    /// Like [`minimal`](Self::minimal), and also mends unambiguous syntax, tries branches and
    /// converts strings to arrays.
    ///
    /// The tolerance is [`Tolerance::Strict`] until [`with_tolerance`](Self::with_tolerance) sets a
    /// higher one.
    pub fn full() -> Self {
        Self::of_level(OutputProcessing::Full)
    }

    /// Returns the default options of a level.
    pub fn of_level(level: OutputProcessing) -> Self {
        let allow = match level {
            OutputProcessing::Off => Allow::none(),
            OutputProcessing::Minimal => Allow::scalars(),
            OutputProcessing::Full => Allow::scalars().with(Conversion::StrToList),
        };
        Self {
            level,
            tolerance: Tolerance::Strict,
            allow,
            max_unescape_depth: 2,
            anyof_strategy: AnyOfStrategy::FirstPass,
            prefer: Prefer::Only,
            allow_truncated: false,
            wide_integers: false,
            shadow: false,
            limits: AdaptLimits::default(),
        }
    }

    /// Sets the level and replaces the allowed conversions with the level's defaults.
    #[must_use]
    pub fn at_level(self, level: OutputProcessing) -> Self {
        Self { level, allow: Self::of_level(level).allow, ..self }
    }

    /// Applies the `coercion` block of a step.
    #[must_use]
    pub fn with_coercion(mut self, block: &Coercion) -> Self {
        if let Some(tolerance) = block.tolerant_level {
            self.tolerance = tolerance;
        }
        if let Some(allow) = &block.allow {
            self.allow = allow.clone();
        }
        if let Some(depth) = block.max_unescape_depth {
            self.max_unescape_depth = depth.get();
        }
        if let Some(strategy) = block.anyof_strategy {
            self.anyof_strategy = strategy;
        }
        if let Some(prefer) = block.prefer {
            self.prefer = prefer;
        }
        if let Some(allow) = block.allow_truncated {
            self.allow_truncated = allow;
        }
        self
    }

    /// Sets the tolerance.
    #[must_use]
    pub fn with_tolerance(self, tolerance: Tolerance) -> Self {
        Self { tolerance, ..self }
    }

    /// Returns the JSON syntax that is read.
    pub(super) const fn syntax(&self) -> Syntax {
        Syntax { max_depth: self.limits.max_depth, wide_integers: self.wide_integers }
    }

    /// Turns shadow mode on or off. In shadow mode, the adaptation is only recorded.
    #[must_use]
    pub fn with_shadow(self, shadow: bool) -> Self {
        Self { shadow, ..self }
    }

    pub(super) fn check(&self) -> Result<(), AdaptError> {
        Depth::try_from(self.max_unescape_depth).map(|_| ())
    }
}
