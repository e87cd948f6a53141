//! Checks that the paths, links, routes and tests named in Markdown documents exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Page that names tests in the last column of its tables.
const TRACEABILITY: &str = "docs/traceability.md";

static REPOSITORY: LazyLock<Repository> = LazyLock::new(Repository::open);

#[test]
fn paths_in_documents_exist() {
    check(|document, row| {
        let words = code_spans(row).flat_map(str::split_whitespace);
        let missing =
            words.filter(|word| REPOSITORY.looks_like_path(word) && !REPOSITORY.has(document, word));
        missing.map(|word| format!("path `{word}`")).collect()
    });
}

#[test]
fn links_in_documents_lead_somewhere() {
    check(|document, row| {
        let missing = links(row).filter(|target| !REPOSITORY.has_target(document, target));
        missing.map(|target| format!("link ({target})")).collect()
    });
}

#[test]
fn routes_in_documents_exist() {
    // A wildcard of the router is a plain parameter in documents.
    let server = REPOSITORY.sources("crates/server/src/").replace("{*", "{");
    check(|_, row| {
        let words = code_spans(row).flat_map(str::split_whitespace);
        let routes = words.filter(|word| word.starts_with("/v1/") && word.is_ascii());
        let missing = routes.filter(|route| !server.contains(&format!("\"{route}\"")));
        missing.map(|route| format!("route `{route}`")).collect()
    });
}

#[test]
fn tests_in_documents_exist() {
    let sources = REPOSITORY.sources("");
    let functions: BTreeSet<&str> = sources.split("fn ").skip(1).map(identifier).collect();
    check(|document, row| {
        if document != TRACEABILITY {
            return Vec::new();
        }
        let missing = test_names(row).filter(|name| !functions.contains(name));
        missing.map(|name| format!("test `{name}`")).collect()
    });
}

/// Applies `find_missing` to each line of each document, with the document's path. Fails with the
/// places of all references that it returns.
fn check(find_missing: impl Fn(&str, &str) -> Vec<String>) {
    let mut places = Vec::new();
    for document in REPOSITORY.with_extension("md") {
        for (number, row) in rows(&REPOSITORY.read(document)) {
            for reference in find_missing(document, row) {
                places.push(format!("{document}:{number}: {reference}"));
            }
        }
    }
    assert!(places.is_empty(), "documents name what does not exist:\n{}", places.join("\n"));
}

/// The files that git tracks or would track.
struct Repository {
    root: PathBuf,
    /// Paths relative to the root.
    files: Vec<String>,
    /// Every end of the path of a file or folder, also without `src`. For example,
    /// `crates/vocab/src/trie.rs` has the ends `vocab/src/trie.rs`, `vocab/trie.rs` and `src`.
    ends: BTreeSet<String>,
    /// Names of the folders in the root.
    folders: BTreeSet<String>,
    /// Extensions of the files.
    extensions: BTreeSet<String>,
}

impl Repository {
    fn open() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&root);
        let listed = git.output().expect("git runs");
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let listed = String::from_utf8(listed.stdout).expect("paths are UTF-8");
        // git also lists files that were deleted without being staged.
        let exists = |path: &&str| root.join(path).is_file();
        let files: Vec<String> = listed.split('\0').filter(exists).map(str::to_owned).collect();
        let (mut ends, mut folders, mut extensions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for file in &files {
            folders.extend(file.split_once('/').map(|(folder, _)| folder.to_owned()));
            extensions.extend(extension(file).map(str::to_owned));
            for path in Path::new(file).ancestors().filter_map(Path::to_str) {
                for path in [path, &path.replace("/src/", "/")] {
                    let starts = path.match_indices('/').map(|(slash, _)| slash + 1);
                    ends.extend(starts.chain([0]).map(|start| path[start..].to_owned()));
                }
            }
        }
        Self { root, files, ends, folders, extensions }
    }

    fn with_extension(&self, wanted: &str) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str).filter(move |file| extension(file) == Some(wanted))
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Returns the text of all Rust files below a folder.
    fn sources(&self, folder: &str) -> String {
        let files = self.with_extension("rs").filter(|file| file.starts_with(folder));
        files.map(|file| self.read(file)).collect()
    }

    /// Returns true for words such as `docs/limits.md`, `crates/vocab` and `adapt/`. Placeholders,
    /// patterns, absolute paths, build outputs and URLs are no paths of the repository.
    fn looks_like_path(&self, word: &str) -> bool {
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-".contains(char);
        let Some((first, _)) = word.split_once('/') else { return false };
        let is_known = self.folders.contains(first)
            || word.ends_with('/')
            || extension(word).is_some_and(|extension| self.extensions.contains(extension));
        !first.is_empty() && first != "target" && word.chars().all(is_plain) && is_known
    }

    /// Returns true if the path exists, from the document's folder or from any other folder. `src`
    /// may be omitted, as in `engine/prompt.rs`.
    fn has(&self, document: &str, path: &str) -> bool {
        self.ends.contains(path.trim_end_matches('/')) || self.beside(document, path).exists()
    }

    /// Returns true if the target of a link exists, with the heading of its anchor. URLs are not
    /// checked.
    fn has_target(&self, document: &str, target: &str) -> bool {
        if target.contains("://") {
            return true;
        }
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let file = if path.is_empty() { self.root.join(document) } else { self.beside(document, path) };
        if heading.is_empty() {
            return file.exists();
        }
        let text = std::fs::read_to_string(file).unwrap_or_default();
        rows(&text).iter().any(|(_, row)| row.starts_with('#') && anchor(row) == heading)
    }

    fn beside(&self, document: &str, path: &str) -> PathBuf {
        self.root.join(document).with_file_name("").join(path)
    }
}

fn extension(path: &str) -> Option<&str> {
    Path::new(path).extension()?.to_str()
}

/// Returns the lines outside code blocks, with their numbers.
fn rows(text: &str) -> Vec<(usize, &str)> {
    let mut rows = Vec::new();
    let mut in_block = false;
    for (number, row) in (1..).zip(text.lines()) {
        if row.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            rows.push((number, row));
        }
    }
    rows
}

/// Returns the inline code of a line.
fn code_spans(row: &str) -> impl Iterator<Item = &str> {
    row.split('`').skip(1).step_by(2)
}

/// Returns the targets of a line's links.
fn links(row: &str) -> impl Iterator<Item = &str> {
    let outside_code = row.split('`').step_by(2);
    let after_texts = outside_code.flat_map(|part| part.split("](").skip(1));
    after_texts.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the names of tests in a row of a table: words with underscores in the last column.
fn test_names(row: &str) -> impl Iterator<Item = &str> {
    let cells = row.strip_prefix('|').map(|row| row.trim_end_matches([' ', '|']));
    let last = cells.and_then(|cells| cells.rsplit('|').next()).unwrap_or_default();
    code_spans(last).filter(|span| span.contains('_') && identifier(span) == *span)
}

/// Returns the identifier at the start of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Returns the anchor of a heading, as `GitHub` derives it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    heading.chars().filter(|&char| char.is_alphanumeric() || "-_".contains(char)).collect()
}
