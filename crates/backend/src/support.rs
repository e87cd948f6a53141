//! Knowledge of how a server treats a model: the constraints that it enforces and the names of its
//! request fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Adjustment, Capabilities, Dialect, Feature};

/// Findings about a server's treatment of one model, from probes and from refused requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSupport {
    /// Results of probes: true if the server enforces the constraint.
    pub features: BTreeMap<Feature, bool>,
    /// Constraints that the last answer did not satisfy although the server enforces them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub doubts: BTreeSet<Feature>,
    /// Form of requests that the server accepts.
    pub dialect: Dialect,
}

impl ModelSupport {
    pub(super) fn set(&mut self, feature: Feature, is_supported: bool) {
        self.features.insert(feature, is_supported);
    }

    /// Returns the capabilities if every feature was probed.
    pub(super) fn capabilities(&self) -> Option<Capabilities> {
        let is_known = Feature::ALL.iter().all(|feature| self.features.contains_key(feature));
        let enforced = || self.features.iter().filter(|(_, is_enforced)| **is_enforced);
        is_known.then(|| enforced().map(|(&feature, _)| feature).collect())
    }
}

/// Storage for [`ModelSupport`] that outlasts the process. Failures to read or write are not
/// errors, because the knowledge can be found again.
pub trait SupportMemory: Send + Sync {
    /// Returns what is stored for the model of the server with this endpoint.
    fn load(&self, endpoint: &str, model: &str) -> Option<ModelSupport>;

    /// Returns the place of the storage for messages, such as the path of a file.
    fn place(&self) -> Option<String> {
        None
    }

    /// Applies `change` to what is stored for the model. Other processes may change the storage at
    /// the same time, so an implementation reads, changes and writes under a lock.
    fn update(&self, endpoint: &str, model: &str, change: &dyn Fn(&mut ModelSupport));
}

/// Something about a server that a user should know, although no request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A request was changed because the server refused one of its fields.
    Adjusted {
        /// Name of the model.
        model: String,
        /// Change of the request.
        adjustment: Adjustment,
    },
    /// A request is about to be sent to find out whether the server enforces a constraint.
    Probing {
        /// Name of the model.
        model: String,
        /// Probed constraint.
        feature: Feature,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adjusted { model, adjustment: Adjustment::TokenLimit(field) } => {
                write!(f, "{model}: the server requires the name `{}` for the limit of tokens", field.name())
            }
            Self::Adjusted { model, adjustment: Adjustment::NoTemperature } => {
                write!(f, "{model}: `temperature` is not sent, because the server does not support it")
            }
            Self::Probing { model, feature } => {
                write!(f, "{model}: testing whether the server supports {}", feature.name())
            }
        }
    }
}
