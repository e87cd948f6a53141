//! The libraries of the protocols read no environment variables.

use std::path::Path;

/// Names of functions and macros that read the environment of the process.
const READS: [&str; 4] = ["env::var", "env::vars", "option_env!", "dotenv"];

#[test]
fn libraries_do_not_read_the_environment() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = 0;
    for name in ["protocol", "adapt", "backend", "trace"] {
        let mut folders = vec![crates.join(name).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                files += 1;
                for read in READS {
                    assert!(!text.contains(read), "{}: `{read}`", path.display());
                }
            }
        }
    }
    assert!(files > 100, "{files}");
}
