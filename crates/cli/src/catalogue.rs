//! `formwork catalogue`

use std::fmt::Write;

use anyhow::Result;
use formwork_protocol::catalogue::{self, CatalogueEntry};
use formwork_protocol::sampling::{ModelPattern, Profiles};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct CatalogueArgs {
    /// Names of models, with `*` for any characters [default: all models].
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
}

pub(crate) fn catalogue(args: &CatalogueArgs, as_json: bool) -> Result<bool> {
    let patterns: Vec<ModelPattern> = args.models.iter().map(|name| name.as_str().into()).collect();
    let matches = |entry: &&CatalogueEntry| {
        patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(entry.model))
    };
    let entries: Vec<&CatalogueEntry> = catalogue::entries().iter().filter(matches).collect();
    if as_json {
        println!("{}", Value::from(entries.iter().map(|entry| described(entry)).collect::<Vec<_>>()));
    } else if !entries.is_empty() {
        let table = table(&entries);
        println!("{}", table.trim_end());
    }
    if entries.is_empty() {
        eprintln!("formwork: no model of the catalogue is called {}", args.models.join(" or "));
    }
    Ok(!entries.is_empty())
}

fn described(entry: &CatalogueEntry) -> Value {
    let profiles = Profiles::predefined();
    let sampling = profiles.get(entry.profile()).map(|profile| profile.sampling);
    json!({
        "model": entry.model,
        "profile": entry.profile(),
        "sampling": sampling,
        "profiles": entry.profiles,
        "workarounds": entry.workarounds,
        "verdict": entry.verdict,
        "notes": entry.notes,
    })
}

/// Formats the entries as a table.
fn table(entries: &[&CatalogueEntry]) -> String {
    let profiles = Profiles::predefined();
    let mut rows = vec![["MODEL", "PROFILE", "WORKAROUND", "TOOLS", "NOTES"].map(str::to_owned)];
    for entry in entries {
        let sampling = profiles.get(entry.profile()).map(|profile| profile.sampling.to_string());
        let profile = match sampling {
            Some(sampling) if sampling != "no overrides" => format!("{} ({sampling})", entry.profile()),
            _ => entry.profile().to_owned(),
        };
        let names: Vec<&str> = entry.workarounds.iter().map(|workaround| workaround.name()).collect();
        let workarounds = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
        let [model, verdict, notes] = [entry.model, entry.verdict.name(), entry.notes].map(str::to_owned);
        rows.push([model, profile, workarounds, verdict, notes]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", row[4]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_model() {
        let entries: Vec<&CatalogueEntry> = catalogue::entries().iter().collect();
        let table = table(&entries);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), entries.len() + 1);
        assert!(lines[0].starts_with("MODEL "), "{table}");
        let row =
            lines.iter().find(|line| line.starts_with("google/gemini-2.5-flash:nitro ")).expect("a row");
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells[1..4], ["gemini_2_5_flash_creative (t=1.5)", "gemini_openrouter_compat", "Yes"]);
        let column = lines[0].find("TOOLS").expect("a column");
        assert!(
            entries
                .iter()
                .zip(&lines[1..])
                .all(|(entry, line)| line[column..].starts_with(entry.verdict.name()))
        );
    }

    #[test]
    fn json_has_the_fields_of_an_entry() {
        let entry = catalogue::find("z-ai/glm-4.7-flash").expect("an entry");
        let expected = json!({
            "model": "z-ai/glm-4.7-flash:nitro",
            "profile": "glm_4_7_flash_tool_calling",
            "sampling": { "temperature": 0.7, "top_p": 1.0 },
            "profiles": ["glm_4_7_flash_tool_calling"],
            "workarounds": ["content_tag_tool_call_fallback"],
            "verdict": "no",
            "notes": "52.5% of tool scenarios.",
        });
        assert_eq!(described(entry), expected);
    }
}
