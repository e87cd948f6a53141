//! `formwork fields gbnf`, `template`, `schema`, `csharp`, `convert` and `validate`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use formwork_fields::{CSharpOptions, Definition, Format, Invalid, SchemaOptions};
use serde_json::json;

use crate::args::{DefinitionArgs, DefinitionTargetArg, FieldsCommand};
use crate::{files, load};

pub(crate) fn fields(command: &FieldsCommand, as_json: bool) -> Result<bool> {
    print(command, as_json, std::io::stdout().lock())
}

fn print(command: &FieldsCommand, as_json: bool, mut out: impl Write) -> Result<bool> {
    match command {
        FieldsCommand::Gbnf(args) => {
            let gbnf = read(args)?.gbnf();
            if as_json {
                writeln!(out, "{}", json!({ "gbnf": gbnf }))?;
            } else {
                write!(out, "{gbnf}")?;
            }
        }
        FieldsCommand::Template(args) => {
            let template = read(args)?.template();
            if as_json {
                writeln!(out, "{}", json!({ "template": template }))?;
            } else {
                writeln!(out, "{template}")?;
            }
        }
        FieldsCommand::Schema { definition, multiple_of } => {
            let definition = read(definition)?;
            let schema = definition.schema_with(SchemaOptions { multiple_of: *multiple_of });
            warn_of_weights(&definition);
            if !multiple_of {
                warn_of_open_steps(&definition);
            }
            if as_json {
                writeln!(out, "{schema}")?;
            } else {
                writeln!(out, "{schema:#}")?;
            }
        }
        FieldsCommand::Csharp { definition, namespace } => {
            let options = CSharpOptions { namespace: namespace.clone() };
            let csharp = read(definition)?.csharp(&options).context("--namespace")?;
            if as_json {
                writeln!(out, "{}", json!({ "csharp": csharp }))?;
            } else {
                write!(out, "{csharp}")?;
            }
        }
        FieldsCommand::Convert { definition, to } => {
            let definition = read(definition)?;
            let format = match to {
                DefinitionTargetArg::Json => Format::Json,
                DefinitionTargetArg::Yaml => Format::Yaml,
                DefinitionTargetArg::Toml => Format::Toml,
                DefinitionTargetArg::Csharp => Format::CSharp,
                DefinitionTargetArg::Schema => {
                    warn_of_weights(&definition);
                    warn_of_open_steps(&definition);
                    Format::JsonSchema
                }
            };
            let text = definition.to_text(format)?;
            if as_json {
                writeln!(out, "{}", json!({ "definition": text }))?;
            } else {
                writeln!(out, "{}", text.trim_end())?;
            }
        }
        FieldsCommand::Validate { definition, input } => return validate(definition, input, as_json, out),
    }
    Ok(true)
}

/// Prints a warning for weights and probabilities, which a JSON Schema does not contain.
fn warn_of_weights(definition: &Definition) {
    if definition.has_weights() {
        eprintln!(
            "formwork: warning: the JSON Schema has no weights and no probabilities; the definition has some"
        );
    }
}

/// Prints a warning for numbers with a step that the JSON Schema does not contain.
fn warn_of_open_steps(definition: &Definition) {
    if let Some(first) = definition.open_steps().first() {
        eprintln!(
            "formwork: warning: {first}: the number has too many values for the JSON Schema, which therefore \
             does not limit its decimals; if your validator computes `multipleOf` exactly, use \
             `formwork fields schema --multiple-of`"
        );
    }
}

fn read(args: &DefinitionArgs) -> Result<Definition> {
    load::read_definition(None, &args.definition, args.format, ", or --format")
}

/// Validates each input and prints its errors; returns false if one is not valid.
fn validate(args: &DefinitionArgs, inputs: &[PathBuf], as_json: bool, mut out: impl Write) -> Result<bool> {
    let is_input = |path: &PathBuf| path == Path::new("-");
    if inputs.iter().chain([&args.definition]).filter(|path| is_input(path)).count() > 1 {
        bail!("standard input can be read only once");
    }
    let definition = read(args)?;
    let mut all = true;
    for path in inputs {
        let errors = errors(&definition, &files::read_input(Some(path))?);
        all &= errors.is_empty();
        if as_json {
            let list =
                errors.iter().map(|Invalid { path, message }| json!({ "path": path, "message": message }));
            let list: Vec<_> = list.collect();
            writeln!(
                out,
                "{}",
                json!({ "input": path.display().to_string(), "valid": errors.is_empty(), "errors": list })
            )?;
            continue;
        }
        let name = if inputs.len() > 1 { format!("{}: ", path.display()) } else { String::new() };
        if errors.is_empty() {
            writeln!(out, "{name}valid")?;
        }
        for error in errors {
            writeln!(out, "{name}{error}")?;
        }
    }
    Ok(all)
}

fn errors(definition: &Definition, bytes: &[u8]) -> Vec<Invalid> {
    match std::str::from_utf8(bytes) {
        Ok(text) => definition.validate(text),
        Err(error) => {
            let message = format!("not valid JSON: not UTF-8 at byte {}", error.valid_up_to());
            vec![Invalid { path: "$".to_owned(), message }]
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command::{Args, Command};

    /// Runs `formwork fields`; returns its output and its answer.
    fn run(args: &[&str]) -> Result<(String, bool)> {
        let args = Args::try_parse_from([&["formwork", "fields"], args].concat())?;
        let as_json = args.json.is_some();
        let Command::Fields(command) = args.command else { panic!("another command") };
        let mut out = Vec::new();
        let answer = print(&command, as_json, &mut out)?;
        Ok((String::from_utf8(out)?, answer))
    }

    fn shipped(name: &str) -> String {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../grammars/fields");
        folder.join(name).display().to_string()
    }

    #[test]
    fn detects_the_format_by_the_extension() -> Result<()> {
        for name in ["character.json", "scene-event.yaml", "quest-log.toml"] {
            let definition = shipped(name);
            let (gbnf, _) = run(&["gbnf", &definition])?;
            assert!(gbnf.starts_with("root ::= "), "{gbnf}");
            let (template, _) = run(&["template", &definition])?;
            assert!(template.starts_with("{\n  \"") && template.ends_with("}\n"), "{template}");
            let (schema, _) = run(&["schema", &definition])?;
            let schema: serde_json::Value = serde_json::from_str(&schema)?;
            assert_eq!(schema["type"], "object");
            let (line, _) = run(&["template", &definition, "--json"])?;
            let line: serde_json::Value = serde_json::from_str(&line)?;
            assert_eq!(line["template"], template.trim_end());
        }
        Ok(())
    }

    #[test]
    fn accepts_an_explicit_format() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str, text: &str| -> Result<String> {
            let path = folder.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let toml = file("age.txt", "type = \"int\"\nmin = 1\nmax = 3\n")?;
        let error = run(&["gbnf", &toml]).unwrap_err().to_string();
        assert!(
            error.ends_with("unknown extension; expected .json, .yaml, .yml, .toml or .cs, or --format"),
            "{error}"
        );
        assert_eq!(run(&["gbnf", &toml, "--format", "toml"])?.0, "root ::= [1-3]\n");
        let error = run(&["gbnf", &toml, "--format", "json"]).unwrap_err();
        assert!(crate::one_line(&error).ends_with("JSON, line 1, column 2: expected ident"), "{error:#}");
        assert_eq!(
            run(&["gbnf", &file("age", "{\"type\": \"boolean\"}")?])?.0,
            "root ::= boolean\nboolean ::= \"true\" | \"false\"\n"
        );
        assert_eq!(
            run(&["gbnf", &file("ages", "type: constant\nvalue: 'yes'")?])?.0,
            "root ::= \"\\\"yes\\\"\"\n"
        );
        let bad = file("bad.json", r#"{"fields": [{"name": "age", "type": "int", "min": 3, "max": 1}]}"#)?;
        let error = crate::one_line(&run(&["schema", &bad]).unwrap_err());
        assert!(error.ends_with("bad.json: age: min (3) is greater than max (1)"), "{error}");
        Ok(())
    }

    #[test]
    fn converts_between_all_formats() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str, text: &str| -> Result<String> {
            let path = folder.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let (json, _) = run(&["convert", &shipped("quest-log.toml"), "--to", "json"])?;
        let (yaml, _) = run(&["convert", &file("a.json", &json)?, "--to", "yaml"])?;
        let (toml, _) = run(&["convert", &file("a.yaml", &yaml)?, "--to", "toml"])?;
        let (again, _) = run(&["convert", &file("a.toml", &toml)?, "--to", "json"])?;
        assert_eq!(json, again);
        let (line, _) = run(&["convert", &shipped("character.json"), "--to", "toml", "--json"])?;
        let line: serde_json::Value = serde_json::from_str(&line)?;
        assert!(
            line["definition"].as_str().is_some_and(|text| text.contains("name = \"Character\"")),
            "{line}"
        );

        let code = r#"var age = new IntField("age", 0, 120);
            var schema = new CompositeField("Character", age);"#;
        let code = file("character.cs", code)?;
        let (schema, _) = run(&["convert", &code, "--to", "schema"])?;
        let derived = file("schema.json", &schema)?;
        let (from_code, _) = run(&["convert", &code, "--to", "yaml"])?;
        let (from_schema, _) = run(&["convert", &derived, "--format", "schema", "--to", "yaml"])?;
        assert_eq!(from_code, from_schema);
        let (written, _) = run(&["convert", &code, "--to", "csharp"])?;
        let (again, _) = run(&["convert", &file("again.cs", &written)?, "--to", "yaml"])?;
        assert_eq!(from_code, again);
        let error =
            crate::one_line(&run(&["convert", &shipped("quest-log.toml"), "--to", "csharp"]).unwrap_err());
        assert!(error.contains("cannot be written as C#: no constructor defines structures"), "{error}");
        let text = std::fs::read_to_string(&code)?;
        let renamed = file("code.txt", &text)?;
        assert_eq!(run(&["convert", &renamed, "--format", "csharp", "--to", "yaml"])?.0, from_code);
        let bad = file("bad.cs", "var a =\n  new IntField(\"a\", 3, 1);")?;
        let error = crate::one_line(&run(&["gbnf", &bad]).unwrap_err());
        assert!(
            error.ends_with("bad.cs: C#, line 2, column 3: $: min (3) is greater than max (1)"),
            "{error}"
        );
        Ok(())
    }

    #[test]
    fn writes_csharp_records() -> Result<()> {
        let definition = shipped("scene-event.yaml");
        let (text, _) = run(&["csharp", &definition])?;
        assert!(
            text.contains("\nnamespace Formwork;\n") && text.contains("public sealed record SceneEvent\n"),
            "{text}"
        );
        let (text, _) = run(&["csharp", &definition, "--namespace", "Game.Events", "--json"])?;
        let line: serde_json::Value = serde_json::from_str(&text)?;
        assert!(
            line["csharp"].as_str().is_some_and(|text| text.contains("\nnamespace Game.Events;\n")),
            "{line}"
        );
        let error = crate::one_line(&run(&["csharp", &definition, "--namespace", "a-b"]).unwrap_err());
        assert!(error.starts_with("--namespace: invalid namespace `a-b`"), "{error}");
        Ok(())
    }

    #[test]
    fn schemas_have_steps_on_request() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("speed.json");
        std::fs::write(&path, r#"{"type": "float", "min": 0, "max": 0.3, "decimals": 1}"#)?;
        let path = path.display().to_string();
        let schema = |args: &[&str]| -> Result<serde_json::Value> {
            Ok(serde_json::from_str(&run(&[&["schema", path.as_str()], args].concat())?.0)?)
        };
        assert_eq!(schema(&[])?["enum"], json!([0, 0.1, 0.2, 0.3]));
        assert_eq!(schema(&["--multiple-of"])?["multipleOf"], json!(0.1));
        Ok(())
    }

    /// File names are bytes, which JSON cannot always represent.
    #[cfg(unix)]
    #[test]
    fn accepts_input_names_that_are_not_unicode() -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir()?;
        let input = folder.path().join(std::ffi::OsStr::from_bytes(b"hero-\xff.json"));
        std::fs::write(&input, "{}")?;
        let definition = DefinitionArgs { definition: shipped("character.json").into(), format: None };
        let mut out = Vec::new();
        assert!(!validate(&definition, &[input], true, &mut out)?);
        let line: serde_json::Value = serde_json::from_slice(&out)?;
        assert!(line["input"].as_str().is_some_and(|name| name.ends_with("hero-\u{fffd}.json")), "{line}");
        Ok(())
    }

    #[test]
    fn reports_whether_inputs_are_valid_and_why() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str, text: &[u8]| -> Result<String> {
            let path = folder.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let good = file(
            "good.json",
            br#"{"stats": {"strength": 3, "dexterity": 10, "intelligence": 1},
            "name": "Ava", "class": "mage", "age": 25}"#,
        )?;
        let bad =
            file("bad.json", br#"{"name": "Av", "age": 121, "class": "mage", "stats": {"strength": 0}}"#)?;
        let odd = file("odd.json", b"\xff")?;
        let definition = shipped("character.json");
        assert_eq!(run(&["validate", &definition, &good])?, ("valid\n".to_owned(), true));
        let (text, answer) = run(&["validate", &definition, &bad])?;
        let expected = "$.name: expected 3 to 20 characters, found 2\n\
            $.age: expected an integer between 0 and 120, found 121\n\
            $.stats.strength: expected an integer between 1 and 10, found 0\n\
            $.stats: the member \"dexterity\" is missing\n\
            $.stats: the member \"intelligence\" is missing\n";
        assert_eq!((text.as_str(), answer), (expected, false));
        let (text, answer) = run(&["validate", &definition, &good, &odd])?;
        assert!(
            !answer
                && text.contains("good.json: valid\n")
                && text.contains("odd.json: $: not valid JSON: not UTF-8 at byte 0")
        );
        let (text, _) = run(&["validate", &definition, &bad, "--json"])?;
        let line: serde_json::Value = serde_json::from_str(&text)?;
        assert_eq!((&line["valid"], &line["errors"][1]["path"]), (&false.into(), &"$.age".into()));
        let error = run(&["validate", "-", "-"]).unwrap_err().to_string();
        assert_eq!(error, "standard input can be read only once");
        Ok(())
    }
}
