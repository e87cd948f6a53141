//! Reads tool files, and the MCP servers that the command line names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use formwork_protocol::tools::{
    CommandTool, Environment, McpClient, McpOptions, ToolDefinition, ToolRegistry,
};
use serde::Deserialize;
use serde_json::Value;

use super::args::RunArgs;
use crate::files;

/// Tools that run as processes, and MCP servers that are not connected yet.
pub(super) struct Tools {
    pub(super) registry: ToolRegistry,
    servers: Vec<ServerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsFile {
    #[serde(default)]
    tools: Vec<ToolEntry>,
    #[serde(default)]
    mcp: Vec<ServerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolEntry {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default = "anything")]
    parameters: Value,
    command: Vec<String>,
    /// Timeout of one call, in seconds.
    timeout: Option<f64>,
    /// Maximum size of a call's output, in bytes.
    output_limit: Option<usize>,
    #[serde(default)]
    environment: Environment,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Working directory of the command, relative to the tool file.
    folder: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ServerEntry {
    #[serde(default)]
    command: Vec<String>,
    url: Option<String>,
    #[serde(default)]
    prefix: String,
    /// Timeout of one request, in seconds.
    timeout: Option<f64>,
    #[serde(default)]
    environment: Environment,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Environment variable with the server's bearer token.
    bearer_env: Option<String>,
}

fn anything() -> Value {
    Value::Object(serde_json::Map::new())
}

/// Reads all tools and servers that the command line names, without connecting to a server.
pub(super) fn read(args: &RunArgs) -> Result<Tools> {
    let mut tools = Tools { registry: ToolRegistry::new(), servers: Vec::new() };
    for path in &args.tools {
        let text = files::read_option("--tools", path)?;
        let file = parse(path, &text).with_context(|| path.display().to_string())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for entry in file.tools {
            add(&mut tools.registry, entry, folder).with_context(|| path.display().to_string())?;
        }
        tools.servers.extend(file.mcp);
    }
    for command in &args.mcp {
        let split = shlex::split(command).filter(|command| !command.is_empty());
        let command = split.with_context(|| format!("--mcp {command}: empty command or unclosed quote"))?;
        tools.servers.push(ServerEntry { command, ..ServerEntry::default() });
    }
    for url in &args.mcp_url {
        tools.servers.push(ServerEntry { url: Some(url.clone()), ..ServerEntry::default() });
    }
    Ok(tools)
}

fn parse(path: &Path, text: &str) -> Result<ToolsFile> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(toml::from_str(text)?);
    }
    Ok(formwork_json::from_str(text)?)
}

fn add(registry: &mut ToolRegistry, entry: ToolEntry, folder: &Path) -> Result<()> {
    let mut command = CommandTool::new(entry.command)
        .with_context(|| entry.name.clone())?
        .with_environment(entry.environment, entry.env);
    if let Some(given) = entry.timeout {
        command = command.with_timeout(seconds(given)?);
    }
    if let Some(bytes) = entry.output_limit {
        command = command.with_output_limit(bytes);
    }
    if let Some(given) = entry.folder {
        command = command.in_folder(folder.join(given));
    }
    Ok(registry.add(ToolDefinition::new(entry.name, entry.description, entry.parameters), command)?)
}

fn seconds(given: f64) -> Result<Duration> {
    let time = Duration::try_from_secs_f64(given).ok().filter(|time| !time.is_zero());
    time.with_context(|| format!("timeout = {given}: expected a positive number of seconds"))
}

impl Tools {
    /// Connects to the servers and adds their tools. A server runs until its returned client is
    /// dropped.
    pub(super) async fn connect(&mut self) -> Result<Vec<McpClient>> {
        let mut clients = Vec::new();
        for server in std::mem::take(&mut self.servers) {
            let client = server.connect().await?;
            let (tools, refused) = client.tools().await?;
            for error in refused {
                eprintln!("formwork: warning: {error}; tool skipped");
            }
            for tool in tools {
                self.registry.insert(tool).context(
                    "duplicate tool name; set a `prefix` for one of the MCP servers in a tool file",
                )?;
            }
            clients.push(client);
        }
        Ok(clients)
    }
}

impl ServerEntry {
    async fn connect(self) -> Result<McpClient> {
        let bearer = self
            .bearer_env
            .as_ref()
            .map(|variable| std::env::var(variable).with_context(|| format!("bearer_env = {variable}")));
        let default = McpOptions::default();
        let options = McpOptions {
            prefix: self.prefix,
            timeout: self.timeout.map(seconds).transpose()?.unwrap_or(default.timeout),
            bearer: bearer.transpose()?,
            environment: self.environment,
            variables: self.env,
        };
        Ok(match self.url {
            Some(_) if !self.command.is_empty() => {
                bail!("an MCP server takes either `command` or `url`, not both")
            }
            Some(url) => McpClient::http(&url, options).await?,
            None => McpClient::spawn(self.command, options).await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use formwork_protocol::tools::ToolSource;

    use super::*;

    fn read_as(name: &str, text: &str) -> Result<ToolsFile> {
        parse(Path::new(name), text)
    }

    #[test]
    fn reads_the_same_tools_from_toml_and_json() -> Result<()> {
        let toml = r#"
            [[tools]]
            name = "get_weather"
            description = "The weather in a city."
            command = ["python3", "weather.py"]
            timeout = 2.5
            environment = "clear"
            env = { KEY = "k" }
            folder = "scripts"
            [tools.parameters]
            type = "object"
            properties.city.type = "string"
            required = ["city"]

            [[mcp]]
            command = ["server", "stdio"]
            prefix = "files_"
        "#;
        let json = r#"{
            "tools": [{
                "name": "get_weather", "description": "The weather in a city.", "command": ["python3", "weather.py"],
                "timeout": 2.5, "environment": "clear", "env": {"KEY": "k"}, "folder": "scripts",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
            }],
            "mcp": [{"command": ["server", "stdio"], "prefix": "files_"}]
        }"#;
        for (name, text) in [("tools.toml", toml), ("tools.json", json)] {
            let file = read_as(name, text)?;
            assert_eq!(file.mcp[0].prefix, "files_");
            let mut registry = ToolRegistry::new();
            for entry in file.tools {
                add(&mut registry, entry, Path::new("/here"))?;
            }
            assert_eq!(registry.tools()[0].definition().parameters["required"][0], "city", "{name}");
        }
        Ok(())
    }

    #[test]
    fn rejects_unknown_fields_by_name() {
        let fault = |text: &str| format!("{:#}", read_as("tools.json", text).err().expect("refused"));
        assert!(fault(r#"{"tool": []}"#).starts_with("unknown field `tool`"));
        assert!(
            fault(r#"{"tools": [{"name": "f", "command": [], "time": 1}]}"#)
                .starts_with("unknown field `time`")
        );
        assert!(fault(r#"{"tools": [{"name": "f"}]}"#).starts_with("missing field `command`"));
        assert!(seconds(0.0).is_err() && seconds(-1.0).is_err() && seconds(f64::NAN).is_err());
    }
}
