# Everyday commands; `just` lists them.

# Keeps quoted arguments together.
set positional-arguments

_default:
    @just --list

# Builds the command for use, in target/release.
build:
    cargo build --release

# Runs the tests of the workspace, or of one package: `just test formwork-grammar`.
test package="":
    cargo test {{ if package == "" { "--workspace" } else { "-p " + package } }}

# Checks format, lints and licences.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    if command -v cargo-deny >/dev/null; then cargo deny --offline check licenses bans sources; fi

# Runs everything that must hold.
ci:
    .ci/run

# Measures prefill and decode of the default model.
bench:
    cargo run --release -- bench prefill -p 512
    cargo run --release -- bench decode -n 128

# Runs the command: `just run run --schema grammars/character.schema.json "Describe a sailor."`.
run *arguments:
    cargo run --release -- "$@"
