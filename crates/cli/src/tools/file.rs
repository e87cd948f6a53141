//! Reads tool files, and the MCP servers that the command line names.
//!
//! `formwork tools run` and `formwork serve` take the same files. Only the server uses `callbacks`,
//! and only there an MCP server needs a `name`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use formwork_protocol::tools::{
    CommandTool, Environment, HttpTool, McpClient, McpOptions, ToolDefinition, ToolRegistry,
};
use formwork_server::{CallbackHost, HostedTools, McpServer, McpTarget};
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
    #[serde(default)]
    callbacks: Vec<CallbackEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolEntry {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default = "anything")]
    parameters: Value,
    #[serde(default)]
    command: Vec<String>,
    /// Address of an HTTP callback, instead of a command.
    url: Option<String>,
    /// Environment variable with the callback's bearer token.
    bearer_env: Option<String>,
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
    /// Name in requests to a server.
    name: Option<String>,
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

/// Addresses that requests to a server may call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallbackEntry {
    /// URL; all addresses below it are allowed.
    url: String,
    /// Environment variable with the bearer token.
    bearer_env: Option<String>,
    /// Timeout of one call, in seconds.
    timeout: Option<f64>,
    /// Maximum size of a response, in bytes.
    output_limit: Option<usize>,
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
        if !file.callbacks.is_empty() {
            bail!(
                "{}: `callbacks` allows addresses to clients of `formwork serve`; here, give each tool its `url`",
                path.display()
            );
        }
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

/// Reads the tools, MCP servers and addresses that a server offers to its clients.
pub(crate) fn hosted(paths: &[PathBuf]) -> Result<HostedTools> {
    let (mut registry, mut servers, mut callbacks) = (ToolRegistry::new(), BTreeMap::new(), Vec::new());
    for path in paths {
        let text = files::read_option("--tools", path)?;
        let place = || path.display().to_string();
        let file = parse(path, &text).with_context(place)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for entry in file.tools {
            add(&mut registry, entry, folder).with_context(place)?;
        }
        for (at, entry) in file.mcp.into_iter().enumerate() {
            let name = entry.name.clone().filter(|name| !name.is_empty());
            let name = name
                .with_context(|| format!("mcp[{at}]: a `name` for requests is missing"))
                .with_context(place)?;
            let server = entry.server().with_context(|| format!("mcp[{at}]")).with_context(place)?;
            if servers.insert(name.clone(), server).is_some() {
                bail!("{}: duplicate MCP server `{name}`", place());
            }
        }
        for (at, entry) in file.callbacks.into_iter().enumerate() {
            let host = entry.host().with_context(|| format!("callbacks[{at}]")).with_context(place)?;
            callbacks.push(host);
        }
    }
    Ok(HostedTools::new(registry, servers, callbacks))
}

fn add(registry: &mut ToolRegistry, entry: ToolEntry, folder: &Path) -> Result<()> {
    if let Some(url) = &entry.url {
        return add_callback(registry, url, &entry);
    }
    if entry.bearer_env.is_some() {
        bail!("tool `{}`: `bearer_env` has no effect without `url`", entry.name);
    }
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

/// Adds an HTTP callback.
fn add_callback(registry: &mut ToolRegistry, url: &str, entry: &ToolEntry) -> Result<()> {
    let of_process = [
        ("command", !entry.command.is_empty()),
        ("environment", entry.environment != Environment::default()),
        ("env", !entry.env.is_empty()),
        ("folder", entry.folder.is_some()),
    ];
    if let Some((field, _)) = of_process.into_iter().find(|(_, is_set)| *is_set) {
        bail!("tool `{}`: `{field}` has no effect with `url`", entry.name);
    }
    let mut tool = HttpTool::new(url)?;
    if let Some(variable) = &entry.bearer_env {
        tool = tool.with_bearer(&bearer(variable)?)?;
    }
    if let Some(given) = entry.timeout {
        tool = tool.with_timeout(seconds(given)?);
    }
    if let Some(bytes) = entry.output_limit {
        tool = tool.with_output_limit(bytes);
    }
    let definition = ToolDefinition::new(&*entry.name, &*entry.description, entry.parameters.clone());
    Ok(registry.add(definition, tool)?)
}

fn bearer(variable: &str) -> Result<String> {
    std::env::var(variable).with_context(|| format!("bearer_env = {variable}"))
}

impl CallbackEntry {
    fn host(self) -> Result<CallbackHost> {
        let default = CallbackHost::new(&self.url)?;
        Ok(CallbackHost {
            bearer: self.bearer_env.as_deref().map(bearer).transpose()?,
            timeout: self.timeout.map(seconds).transpose()?.unwrap_or(default.timeout),
            output_limit: self.output_limit.unwrap_or(default.output_limit),
            ..default
        })
    }
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
        let name = self.name.clone();
        let connected = self.server()?.connect().await;
        match name {
            Some(name) => connected.with_context(|| format!("MCP server {name}")),
            None => Ok(connected?),
        }
    }

    fn server(self) -> Result<McpServer> {
        let default = McpOptions::default();
        let options = McpOptions {
            prefix: self.prefix,
            timeout: self.timeout.map(seconds).transpose()?.unwrap_or(default.timeout),
            bearer: self.bearer_env.as_deref().map(bearer).transpose()?,
            environment: self.environment,
            variables: self.env,
        };
        let target = match self.url {
            Some(_) if !self.command.is_empty() => {
                bail!("an MCP server takes either `command` or `url`, not both")
            }
            Some(url) => McpTarget::Url(url),
            None => McpTarget::Command(self.command),
        };
        Ok(McpServer { target, options })
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
        assert!(fault(r#"{"callbacks": [{"prefix": "http://x"}]}"#).starts_with("unknown field `prefix`"));
        assert!(seconds(0.0).is_err() && seconds(-1.0).is_err() && seconds(f64::NAN).is_err());
    }

    fn write(text: &str) -> Result<(tempfile::TempDir, PathBuf)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("tools.toml");
        std::fs::write(&path, text)?;
        Ok((folder, path))
    }

    #[test]
    fn a_server_reads_tools_servers_and_addresses() -> Result<()> {
        let (_folder, path) = write(
            "[[tools]]\nname = \"a\"\ncommand = [\"cat\"]\n[[tools]]\nname = \"b\"\nurl = \"http://127.0.0.1:9/b\"\n\
             timeout = 2\n[[mcp]]\nname = \"files\"\ncommand = [\"server\"]\n[[callbacks]]\n\
             url = \"http://127.0.0.1:9000/\"\ntimeout = 1.5\noutput_limit = 10",
        )?;
        let hosted = hosted(&[path])?;
        assert_eq!(hosted.registry.tools().iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(hosted.mcp["files"].target, McpTarget::Command(vec!["server".to_owned()]));
        let callback = &hosted.callbacks[0];
        assert_eq!((callback.timeout, callback.output_limit), (Duration::from_millis(1500), 10));
        assert!(callback.prefix.covers("http://127.0.0.1:9000/weather"));
        Ok(())
    }

    #[test]
    fn a_wrong_entry_is_named() -> Result<()> {
        for (text, expected) in [
            ("[[mcp]]\ncommand = [\"server\"]", "mcp[0]: a `name` for requests is missing"),
            (
                "[[mcp]]\nname = \"a\"\ncommand = [\"b\"]\nurl = \"http://x\"",
                "mcp[0]: an MCP server takes either",
            ),
            ("[[callbacks]]\nurl = \"ftp://x\"", "callbacks[0]: invalid tool URL `ftp://x`"),
            ("[[callbacks]]\nurl = \"http://x\"\ntimeout = 0", "callbacks[0]: timeout = 0: expected"),
            (
                "[[tools]]\nname = \"a\"\nurl = \"http://x\"\ncommand = [\"b\"]",
                "tool `a`: `command` has no effect with `url`",
            ),
            (
                "[[tools]]\nname = \"a\"\ncommand = [\"b\"]\nbearer_env = \"K\"",
                "tool `a`: `bearer_env` has no effect",
            ),
            ("[[tools]]\nname = \"a\"", "the tool's command is empty"),
        ] {
            let (_folder, path) = write(text)?;
            let told = format!("{:#}", hosted(std::slice::from_ref(&path)).err().expect("refused"));
            assert!(told.starts_with(&path.display().to_string()) && told.contains(expected), "{told}");
        }
        Ok(())
    }
}
