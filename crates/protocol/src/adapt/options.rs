use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{AdaptError, Kind};
use crate::config::{AnyOfStrategy, Aros, OutputProcessing};

/// The most layers of strings that anything may be unescaped from.
const UNESCAPE_DEPTH: u8 = 8;

/// What an [`Adapter`](super::Adapter) may do.
///
/// ```
/// use formwork_protocol::adapt::{AdaptOptions, Coercion, Conversion, Tolerance};
/// use formwork_protocol::config::Aros;
///
/// let block: Coercion = serde_json::from_str(r#"{"tolerant_level": 1, "allow": {"array": ["wrap"]}}"#)?;
/// let options = AdaptOptions::from_config(&Aros::default())?.with_coercion(&block);
/// assert_eq!(options.tolerance, Tolerance::Json5);
/// assert!(options.allow.has(Conversion::Wrap) && !options.allow.has(Conversion::StrToInt));
///
/// let error = serde_json::from_str::<Coercion>(r#"{"allow": {"integer": ["str->date"]}}"#).unwrap_err();
/// assert!(error.to_string().contains("unknown variant `str->date`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptOptions {
    /// How much is done at all.
    pub level: OutputProcessing,
    /// What is read as JSON, at level `full`.
    pub tolerance: Tolerance,
    /// The conversions that are made.
    pub allow: Allow,
    /// How often text that is JSON in a string is taken out of it.
    pub max_unescape_depth: u8,
    /// Which branch of several is taken, at level `full`.
    pub anyof_strategy: AnyOfStrategy,
    /// Whether only to say what would be done: value and verdict are those of level `off` then.
    pub shadow: bool,
    /// Where it is given up.
    pub limits: AdaptLimits,
}

/// Where adaptation is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptLimits {
    /// The largest text that is looked at, 4 MiB by default.
    pub max_bytes: usize,
    /// The deepest nesting, 128 by default and at most.
    pub max_depth: usize,
    /// How long all stages may take together, 1 s by default; looked at between stages, branches and conversions.
    pub max_time: Duration,
    /// How many branches of `anyOf` and `oneOf` are tried, 10,000 by default.
    pub max_trials: usize,
}

impl Default for AdaptLimits {
    fn default() -> Self {
        Self { max_bytes: 4 << 20, max_depth: 128, max_time: Duration::from_secs(1), max_trials: 10_000 }
    }
}

/// What is read as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Tolerance {
    /// JSON alone (0).
    Strict,
    /// JSON5 as well (1).
    Json5,
    /// What is broken, too, as far as it can be told what was meant (2).
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

/// A conversion that may be made of a value whose type is not the schema's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// `"42"` → 42, to integers: what JSON writes as an integer, to the digit.
    StrToInt,
    /// `"3.14"` → 3.14, to numbers: what JSON writes as a number.
    StrToFloat,
    /// `"true"`, `"1"`, `"false"`, `"0"` → true and false, to booleans.
    StrToBool,
    /// `"[1, 2]"` → `[1, 2]`, to arrays.
    StrToList,
    /// T → `[T]`, to arrays; not of null, which could as well be an array of nothing.
    Wrap,
}

impl Conversion {
    /// All there are.
    pub const ALL: [Self; 5] =
        [Self::StrToInt, Self::StrToFloat, Self::StrToBool, Self::StrToList, Self::Wrap];

    /// Its name in options and records.
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

/// The conversions that are made, as data an object of lists by type: `{"integer": ["str->int"], "array": ["str->list", "wrap"]}`.
/// What is not in it is not made; other names are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
pub struct Allow(Vec<Conversion>);

impl Allow {
    /// None.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Those that have one meaning: strings to integers, numbers and booleans.
    pub fn scalars() -> Self {
        [Conversion::StrToInt, Conversion::StrToFloat, Conversion::StrToBool].into_iter().collect()
    }

    /// Whether it is made.
    pub fn has(&self, conversion: Conversion) -> bool {
        self.0.contains(&conversion)
    }

    /// With one more.
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

/// The `coercion` block of a step: what it says itself; the rest stays as it is elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Coercion {
    /// What is read as JSON: 0, 1 or 2.
    pub tolerant_level: Option<Tolerance>,
    /// The conversions that are made, in place of all others.
    pub allow: Option<Allow>,
    /// How often text that is JSON in a string is taken out of it.
    pub max_unescape_depth: Option<Depth>,
    /// Which branch of several is taken.
    pub anyof_strategy: Option<AnyOfStrategy>,
}

/// How often text is unescaped: at most 8 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub struct Depth(u8);

impl Depth {
    /// The number.
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
    /// Nothing is done: the text must be JSON as it is.
    pub fn off() -> Self {
        Self::of_level(OutputProcessing::Off)
    }

    /// JSON is found, unescaped and parsed, and strings become the numbers and booleans that they are the text of.
    pub fn minimal() -> Self {
        Self::of_level(OutputProcessing::Minimal)
    }

    /// Syntax that has one meaning is mended and branches are tried as well, and strings become lists; how tolerant decoding is
    /// stays to be said.
    pub fn full() -> Self {
        Self::of_level(OutputProcessing::Full)
    }

    /// What a level does by default.
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
            shadow: false,
            limits: AdaptLimits::default(),
        }
    }

    /// What the configuration says; nothing is done where it is not enabled.
    ///
    /// # Errors
    /// When a number is not one that a configuration file may have.
    pub fn from_config(aros: &Aros) -> Result<Self, AdaptError> {
        let level = if aros.enabled { aros.enable_aop_default } else { OutputProcessing::Off };
        Ok(Self {
            tolerance: aros.coercion_tolerant_level.try_into()?,
            max_unescape_depth: Depth::try_from(aros.max_unescape_depth)?.get(),
            anyof_strategy: aros.anyof_strategy,
            ..Self::of_level(level)
        })
    }

    /// At another level: its default conversions come with it.
    #[must_use]
    pub fn at_level(self, level: OutputProcessing) -> Self {
        Self { level, allow: Self::of_level(level).allow, ..self }
    }

    /// With what a step says.
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
        self
    }

    /// With another tolerance.
    #[must_use]
    pub fn with_tolerance(self, tolerance: Tolerance) -> Self {
        Self { tolerance, ..self }
    }

    /// As `shadow` says: only to say what would be done.
    #[must_use]
    pub fn with_shadow(self, shadow: bool) -> Self {
        Self { shadow, ..self }
    }

    pub(super) fn check(&self) -> Result<(), AdaptError> {
        Depth::try_from(self.max_unescape_depth).map(|_| ())
    }
}
