//! Reads the files that the command line names.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Reads a text file and strips the byte order mark that some editors write.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(without_mark(text))
}

/// Reads the text file that `option` names, such as `--schema`. If the file cannot be read, the
/// error starts with the option.
pub(crate) fn read_option(option: &'static str, path: &Path) -> Result<String> {
    read_text(path).context(option)
}

/// Strips the byte order mark at the start of a text.
pub(crate) fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    parse(&read_text(path)?, path)
}

/// Reads the JSON file that `option` names. If the file cannot be read, the error starts with the
/// option.
pub(crate) fn read_json_option(option: &'static str, path: &Path) -> Result<Value> {
    parse(&read_option(option, path)?, path)
}

/// Returns the JSON Schema of `--schema`: the value itself if it begins with `{`, or the content of the file.
pub(crate) fn read_schema_option(given: &Path) -> Result<Value> {
    let text = given.to_string_lossy();
    if text.trim_start().starts_with('{') && !given.exists() {
        return formwork_json::from_str(&text).context("--schema");
    }
    read_json_option("--schema", given)
}

fn parse(text: &str, path: &Path) -> Result<Value> {
    formwork_json::from_str(text).with_context(|| path.display().to_string())
}

/// Reads the bytes of a file; reads standard input for `-` or if no path is given.
pub(crate) fn read_input(path: Option<&Path>) -> Result<Vec<u8>> {
    match path {
        Some(path) if path != Path::new("-") => {
            std::fs::read(path).with_context(|| path.display().to_string())
        }
        _ => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("standard input")?;
            Ok(bytes)
        }
    }
}

/// Reads UTF-8 text from the same sources as [`read_input`].
pub(crate) fn read_input_text(path: Option<&Path>) -> Result<String> {
    match String::from_utf8(read_input(path)?) {
        Ok(text) => Ok(text),
        Err(error) => bail!("the input is not UTF-8 at byte {}", error.utf8_error().valid_up_to()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::command::Args;
    use crate::{dispatch, one_line};

    #[test]
    fn errors_of_missing_files_name_the_option() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (nowhere, empty) = (path("nowhere.json"), path("empty.json"));
        std::fs::write(&empty, "{}").unwrap();
        let commands: &[&[&str]] = &[
            &["adapt", "--schema"],
            &["adapt", "--schema", &empty, "--config"],
            &["bench", "serve", "--model", "m", "--prompts"],
            &["bench", "serve", "--model", "m", "--schema"],
            &["directives", "run", "hello", "--registry"],
            &["eval", "directives", "--config"],
            &["grammar", "check", "--schema"],
            &["grammar", "check", "--gbnf"],
            &["grammar", "check", "--lark"],
            &["grammar", "check", "--fields"],
            &["grammar", "check", "--regex", "a", "--tokenizer"],
            &["grammar", "check", "--regex", "a", "--model"],
            &["health-check", "--config"],
            &["repair", &empty, "--schema"],
            &["repair", &empty, "--step", "s", "--steps"],
            &["serve", "--api-key-file"],
            &["serve", "--schemas"],
            &["step", "run", "--step", "s", "--steps"],
            &["step", "run", "--step", "s", "--steps", &empty, "--config"],
            &["tools", "run", "hello", "--tools"],
            &["tools", "run", "--replay"],
        ];
        for command in commands {
            let args = [&["formwork"], *command, &[nowhere.as_str()]].concat();
            let error = dispatch(Args::try_parse_from(&args).unwrap()).unwrap_err();
            let option = command.last().unwrap();
            assert!(
                one_line(&error).starts_with(&format!("{option}: {nowhere}: ")),
                "{command:?}: {error:#}"
            );
        }
        let remote = format!("urn:a={nowhere}");
        let args = ["formwork", "grammar", "check", "--schema", &empty, "--remote", &remote];
        let error = dispatch(Args::try_parse_from(args).unwrap()).unwrap_err();
        assert!(one_line(&error).starts_with(&format!("--remote: {nowhere}: ")), "{error:#}");
    }
}
