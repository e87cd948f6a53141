//! `include/formwork.h` is what cbindgen makes of the sources.

use std::path::Path;

/// The sources with exported items, in the order of the header. `lib` would add its modules in their order.
const SOURCES: [&str; 9] =
    ["version", "error", "bytes", "options", "vocabulary", "tokenizer", "grammar", "constraint", "matcher"];

fn generated(root: &Path) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("a valid configuration");
    let builder = cbindgen::Builder::new().with_config(config);
    let sources = SOURCES.iter().map(|name| root.join(format!("src/{name}.rs")));
    let builder = sources.fold(builder, cbindgen::Builder::with_src);
    let mut text = Vec::new();
    builder.generate().expect("readable sources").write(&mut text);
    String::from_utf8(text).expect("text")
}

#[test]
fn header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = generated(root);
    let path = root.join("include/formwork.h");
    if std::env::var_os("FORMWORK_WRITE_HEADER").is_some() {
        std::fs::write(&path, &text).expect("a writable header");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(found == text, "the header is out of date; FORMWORK_WRITE_HEADER=1 writes it");
}

/// A source that is missing from [`SOURCES`] would be missing from the header too.
#[test]
fn header_declares_every_exported_function() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = generated(root);
    let mut functions = 0;
    for entry in std::fs::read_dir(root.join("src")).expect("a readable folder") {
        let source = std::fs::read_to_string(entry.expect("a readable entry").path()).expect("text");
        for line in source.lines().filter(|line| line.contains("extern \"C\" fn ")) {
            let name = line.split("extern \"C\" fn ").nth(1).and_then(|rest| rest.split('(').next());
            let name = name.expect("a name");
            assert!(header.contains(&format!("{name}(")), "{name}");
            functions += 1;
        }
    }
    assert!(functions > 40, "{functions}");
}
