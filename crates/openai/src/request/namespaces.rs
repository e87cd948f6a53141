//! Tools in namespaces, which requests for responses may have.
//!
//! A namespace groups tools, such as those of one MCP server. The formats of models have no namespaces, so
//! the model sees the tool `search` of the namespace `crm` as `crm__search`.

use std::collections::HashMap;

use super::fields::{Fields, Place};
use super::tools::{NamedTool, ToolForm, read_tool, read_tool_name};
use crate::RequestError;
use crate::error::Problem;

/// The tools in namespaces, by the names under which the model sees them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Namespaces {
    /// Namespace of each tool, and the tool's name in it.
    names: HashMap<String, (String, String)>,
}

/// Returns the name under which the model sees a tool.
fn joined(namespace: &str, name: &str) -> String {
    format!("{namespace}__{name}")
}

/// Parses `name`, and `namespace` if the tool is in one. Returns the name under which the model sees the
/// tool.
pub(crate) fn read_name(fields: &mut Fields) -> Result<String, RequestError> {
    let name = fields.required("name")?.string()?;
    let namespace = fields.read("namespace", Place::string)?.filter(|namespace| !namespace.is_empty());
    Ok(namespace.map_or_else(|| name.clone(), |namespace| joined(&namespace, &name)))
}

impl Namespaces {
    /// Returns the namespace of a tool and its name there, from the name under which the model sees the
    /// tool. Returns `None` for a tool outside of namespaces.
    pub fn find(&self, name: &str) -> Option<(&str, &str)> {
        self.names.get(name).map(|(namespace, own)| (namespace.as_str(), own.as_str()))
    }

    pub(super) fn add(&mut self, more: Self) {
        self.names.extend(more.names);
    }

    /// Parses a namespace. Returns its tools with the names under which the model sees them.
    ///
    /// The description of the namespace is added to that of the first tool.
    pub(super) fn read(&mut self, at: Place) -> Result<Vec<NamedTool>, RequestError> {
        let mut fields = at.fields()?;
        fields.take("type");
        let (namespace, _) = read_tool_name(&mut fields)?;
        let mut about = fields.read("description", Place::string)?.filter(|text| !text.is_empty());
        let places = fields.required("tools")?.list("an array of tools")?;
        fields.finish()?;
        let mut tools = Vec::with_capacity(places.len());
        for place in places {
            let kind = place.value().get("type").cloned().unwrap_or_default();
            if kind != "function" && kind != "custom" {
                place.fields()?.required("type")?.one_of(|_| None::<()>, "function and custom")?;
                continue;
            }
            let Some((mut tool, at)) = read_tool(place, ToolForm::Flat)? else { continue };
            let name = joined(&namespace, &tool.name);
            if let Some(about) = about.take() {
                let own = tool.description.take().unwrap_or_default();
                let all = format!("{own}\n\nAbout all tools that begin with {namespace}__: {about}");
                tool.description = Some(all.trim_start().to_owned());
            }
            let own = std::mem::replace(&mut tool.name, name.clone());
            if self.names.insert(name.clone(), (namespace.clone(), own)).is_some() {
                return Err(at.error(Problem::SameName { name }));
            }
            tools.push((tool, at));
        }
        Ok(tools)
    }
}
