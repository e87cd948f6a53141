//! The examples in C and C#, with the libraries that Cargo built with these tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Libraries of the system that the static library needs.
const SYSTEM: &[&str] = if cfg!(target_os = "linux") { &["-lpthread", "-ldl", "-lm"] } else { &[] };

/// Returns the library with the given file name, beside the test program. Returns `None`, and prints
/// why, if the library or one of the programs is not there.
fn library(name: &str, programs: &[&str]) -> Option<PathBuf> {
    for program in programs {
        if !cfg!(unix) || Command::new(program).arg("--version").output().is_err() {
            println!("skipped: there is no {program}");
            return None;
        }
    }
    let test = std::env::current_exe().ok()?;
    let folder = test.parent()?;
    let folders = [Some(folder), folder.parent()];
    let found = folders.into_iter().flatten().map(|folder| folder.join(name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: there is no {name} beside the tests");
    }
    found
}

/// Returns standard output of a program that must succeed.
fn success(result: std::io::Result<Output>) -> String {
    let output = result.expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns the value of the line that starts with `output: `.
fn json(text: &str) -> (Value, &str) {
    let output = text.lines().find_map(|line| line.strip_prefix("output: ")).expect("an output");
    (serde_json::from_str(output).expect("JSON"), output)
}

#[test]
fn example_in_c_writes_valid_json() {
    let Some(library) = library("libformwork_capi.a", &["cc"]) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("masks");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]).arg(root.join("include"));
    cc.arg(root.join("examples/c/masks.c")).arg(library).args(SYSTEM).arg("-o").arg(&program);
    success(cc.output());

    let text = success(Command::new(&program).output());
    let (value, output) = json(&text);
    assert_eq!(text.lines().filter(|line| line.contains(" allowed")).count(), output.len(), "{text}");
    assert!(value["age"].as_u64().is_some_and(|age| (18..=99).contains(&age)), "{text}");
    assert!(text.contains("refused: #/properties/age/type"), "{text}");
}

#[test]
fn example_in_csharp_reads_its_character() {
    let name = if cfg!(target_os = "macos") { "libformwork_capi.dylib" } else { "libformwork_capi.so" };
    let Some(library) = library(name, &["mcs", "mono"]) else { return };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/csharp");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("Game.exe");
    let mut mcs = Command::new("mcs");
    mcs.args(["-langversion:7", "-warnaserror", "-r:System.Runtime.Serialization"]);
    mcs.args(["Program.cs", "Formwork.cs", "Native.cs"].map(|source| sources.join(source)));
    success(mcs.arg(format!("-out:{}", program.display())).output());

    let folder = library.parent().expect("a folder");
    let mut mono = Command::new("mono");
    mono.env("LD_LIBRARY_PATH", folder).env("DYLD_LIBRARY_PATH", folder).arg(program);
    let text = success(mono.output());
    let (value, _) = json(&text);
    let name = value["name"].as_str().expect("a name");
    assert!(
        text.contains(&format!("{name} is a ")) && text.contains("refused at /properties/level"),
        "{text}"
    );
}
