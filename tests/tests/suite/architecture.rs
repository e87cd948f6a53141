//! Checks the dependency table in `ARCHITECTURE.md` against Cargo's metadata, and the layers inside
//! `grammar`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let text = std::fs::read_to_string(path).expect("ARCHITECTURE.md is there");
    let rows = text.lines().skip_while(|line| !line.starts_with("| crate ")).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let names = |cell: &str| {
                cell.split(',')
                    .map(|name| name.trim().trim_matches('`').to_owned())
                    .filter(|name| !name.is_empty() && name != "–")
                    .collect()
            };
            (cells[0].trim_matches('`').to_owned(), names(cells[1]))
        })
        .collect()
}

#[test]
fn the_dependency_table_is_true() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let metadata =
        MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata runs");
    let actual: BTreeMap<String, BTreeSet<String>> = metadata
        .packages
        .iter()
        .filter(|package| package.manifest_path.parent().is_some_and(|dir| dir.as_str().contains("/crates/")))
        .map(|package| {
            // The command's package has the name of the command.
            let short = |name: &str| match name {
                "formwork" => Some("cli".to_owned()),
                _ => name.strip_prefix("formwork-").map(str::to_owned),
            };
            let dependencies = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind == DependencyKind::Normal)
                .filter_map(|dependency| short(&dependency.name))
                .collect();
            (short(&package.name).expect("packages are formwork and formwork-…"), dependencies)
        })
        .collect();
    assert_eq!(actual, documented());
}

/// Modules of `grammar` that may not name its front ends, which produce what these modules run.
const BELOW_FRONT_ENDS: [&str; 4] = ["ir", "machine", "mask", "regular"];

#[test]
fn machines_import_no_front_end() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/grammar/src");
    let mut open: Vec<_> = BELOW_FRONT_ENDS.iter().map(|name| root.join(name)).collect();
    let mut imports = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a readable folder");
            let entries = entries.map(|entry| entry.expect("a readable entry").path());
            open.extend(entries.filter(|entry| !entry.ends_with("tests") && !entry.ends_with("tests.rs")));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let names = |line: &&str| line.contains("crate::frontend") && !line.trim_start().starts_with("//");
        imports.extend(code.lines().filter(names).map(|line| format!("{}: {line}", path.display())));
    }
    assert!(imports.is_empty(), "{}", imports.join("\n"));
}
