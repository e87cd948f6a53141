//! Checks that the packages can be published: their manifests, their versions, and the files that
//! their code includes.

use std::path::{Component, Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Maximum number of keywords of a package.
const KEYWORDS: usize = 5;

/// Maximum length of a keyword, in characters.
const KEYWORD: usize = 20;

fn packages() -> Vec<Package> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec();
    metadata.expect("cargo metadata runs").packages
}

fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

fn folder(package: &Package) -> &Path {
    package.manifest_path.parent().expect("a manifest is in a folder").as_std_path()
}

/// Asserts that `faults` is empty, and prints it otherwise.
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn published_packages_describe_themselves() {
    let mut faults = Vec::new();
    for package in packages().iter().filter(|package| is_published(package)) {
        let mut check = |holds: bool, fault: &str| {
            if !holds {
                faults.push(format!("{}: {fault}", package.name));
            }
        };
        let has_text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        check(has_text(&package.description), "no description");
        check(has_text(&package.license), "no licence");
        check(package.rust_version.is_some(), "no version of Rust");
        check(!package.categories.is_empty(), "no categories");
        check((1..=KEYWORDS).contains(&package.keywords.len()), "no keywords, or too many");
        check(package.keywords.iter().all(|word| word.len() <= KEYWORD), "a keyword is too long");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            check(folder(package).join(licence).is_file(), &format!("no {licence}"));
        }
    }
    assert_none(&faults);
}

#[test]
fn packages_have_one_version() {
    let packages = packages();
    let version = &packages[0].version;
    let mut faults = Vec::new();
    for package in &packages {
        if package.version != *version {
            faults.push(format!("{}: version {} instead of {version}", package.name, package.version));
        }
        // Without a version, a package cannot be published. Only a dependency of tests may lack it.
        let dependencies = package.dependencies.iter();
        for dependency in dependencies.filter(|dependency| dependency.path.is_some()) {
            let (name, given) = (&dependency.name, dependency.req.to_string());
            let is_dropped = dependency.kind == DependencyKind::Development && given == "*";
            if !is_dropped && given != format!("^{version}") {
                faults.push(format!("{}: depends on {name} {given} instead of ^{version}", package.name));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn published_packages_depend_on_published_ones() {
    let packages = packages();
    let is_internal =
        |name: &str| packages.iter().any(|package| package.name.as_str() == name && !is_published(package));
    let mut faults = Vec::new();
    for package in packages.iter().filter(|package| is_published(package)) {
        let needed =
            package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        let internal = needed.filter(|dependency| is_internal(&dependency.name));
        faults.extend(internal.map(|dependency| format!("{}: depends on {}", package.name, dependency.name)));
    }
    assert_none(&faults);
}

/// A package contains the files below its folder only, and is built elsewhere.
#[test]
fn published_code_needs_no_file_outside_its_package() {
    let mut faults = Vec::new();
    for package in packages().iter().filter(|package| is_published(package)) {
        let folder = folder(package);
        for file in sources(&folder.join("src")) {
            let text = std::fs::read_to_string(&file).expect("sources are readable");
            // Tests are not published.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if code.contains("CARGO_MANIFEST_DIR") {
                faults.push(format!("{}: names a folder of the machine that builds it", file.display()));
            }
            for included in included(code) {
                let path = normal(&file.with_file_name("").join(included));
                if !path.starts_with(folder) || !path.is_file() {
                    faults.push(format!("{}: includes {included}", file.display()));
                }
            }
        }
    }
    assert_none(&faults);
}

/// Returns the Rust files below a folder, without tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let entries = entries.map(|entry| entry.expect("a readable entry").path());
    let mut files = Vec::new();
    for path in entries.filter(|path| !path.ends_with("tests") && !path.ends_with("tests.rs")) {
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Returns the paths in `include_str!` and `include_bytes!`.
fn included(code: &str) -> impl Iterator<Item = &str> {
    let calls = code.split("include_").skip(1);
    calls
        .filter_map(|call| call.split_once("!(\""))
        .filter(|(macro_name, _)| matches!(*macro_name, "str" | "bytes"))
        .map(|(_, rest)| rest.split('"').next().unwrap_or_default())
}

/// Resolves `..` in a path.
fn normal(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            resolved.pop();
        } else {
            resolved.push(component);
        }
    }
    resolved
}
