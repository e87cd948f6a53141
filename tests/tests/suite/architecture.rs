//! Checks the dependency table in `ARCHITECTURE.md` against Cargo's metadata.

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
            let short = |name: &str| name.strip_prefix("formwork-").map(str::to_owned);
            let dependencies = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind == DependencyKind::Normal)
                .filter_map(|dependency| short(&dependency.name))
                .collect();
            (short(&package.name).expect("packages are formwork-…"), dependencies)
        })
        .collect();
    assert_eq!(actual, documented());
}
