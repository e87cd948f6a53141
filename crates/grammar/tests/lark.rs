//! Checks Lark grammars against texts to accept and to reject, and against their GBNF.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use formwork_grammar::{Grammar, Limits, Part, SchemaOptions};
use serde_json::Value;

/// A small `xorshift64*` generator. Equal seeds give equal inputs.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

fn grammar(source: &str) -> Grammar {
    Grammar::lark(source, &Limits::default()).unwrap_or_else(|error| panic!("{source}\n{error}"))
}

/// Returns the grammars in `grammars/*.lark`, each with its path and source.
fn shipped() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grammars");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "lark"));
    paths.sort();
    let read = |path: PathBuf| {
        let source = std::fs::read_to_string(&path).expect("readable");
        (path, source)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the accepted and the rejected texts for the grammar at `path`.
fn cases(path: &Path) -> [Vec<String>; 2] {
    let text = std::fs::read_to_string(path.with_extension("cases.json")).expect("every grammar has cases");
    let cases: Value = serde_json::from_str(&text).expect("cases are JSON");
    ["accept", "reject"].map(|key| serde_json::from_value(cases[key].clone()).expect("a list of texts"))
}

#[test]
fn shipped_grammars_accept_and_reject_their_cases() {
    let mut count = 0;
    for (path, source) in shipped() {
        let grammar = grammar(&source);
        assert!(grammar.warnings().is_empty(), "{}: {:?}", path.display(), grammar.warnings());
        let [accept, reject] = cases(&path);
        count += accept.len() + reject.len();
        for (texts, expected) in [(accept, true), (reject, false)] {
            for text in texts {
                assert_eq!(grammar.accepts(text.as_bytes()), expected, "{}: {text:?}", path.display());
            }
        }
    }
    assert!(count >= 80, "{count} cases");
}

/// Changes one character of a text: removes it, doubles it or replaces it by another one.
fn changed(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let at = random.below(chars.len().max(1));
    match (chars.get(at).copied(), random.below(3)) {
        (None, _) => chars.push('a'),
        (Some(_), 0) => _ = chars.remove(at),
        (Some(c), 1) => chars.insert(at, c),
        (Some(_), _) => chars[at] = chars[random.below(chars.len())],
    }
    chars.into_iter().collect()
}

#[test]
fn the_gbnf_of_a_grammar_accepts_the_same_texts() {
    let mut random = Random(1);
    for (path, source) in shipped() {
        let grammar = grammar(&source);
        let gbnf = Grammar::gbnf(&grammar.to_gbnf().expect("text"), &Limits::default()).expect("valid");
        let [accept, reject] = cases(&path);
        let samples = grammar.samples(7).take(20).chain(gbnf.samples(8).take(20));
        let samples = samples.map(|sample| String::from_utf8(sample).expect("text"));
        for text in samples.chain(accept).chain(reject) {
            for text in [changed(&text, &mut random), text] {
                let expected = grammar.accepts(text.as_bytes());
                assert_eq!(gbnf.accepts(text.as_bytes()), expected, "{}: {text:?}", path.display());
            }
        }
    }
}

#[test]
fn notation_has_its_meaning() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        // Strings, escapes and flags.
        (r#"start: "a\n\t\"\\\/\u00e9\ud83d\ude00""#, &["a\n\t\"\\/é😀"], &["a"]),
        (r#"start: "Straße"i"#, &["STRAßE", "straẞe"], &["strasse"]),
        (r#"start: "" "a" """#, &["a"], &["", "aa"]),
        (r#"start: "a".."c" "x" .. "z""#, &["ax", "cz"], &["dx", "a"]),
        // Operators.
        (r#"start: "a"? ["b" | "c"] ("d" | )"#, &["", "abd", "c", "d"], &["bc", "dd"]),
        (r#"start: "a"+ "b"*"#, &["a", "aab", "abb"], &["", "b"]),
        (r#"start: "a"~2 "b" ~ 1..2"#, &["aab", "aabb"], &["ab", "aabbb"]),
        (r#"start: "a"{2} "b"{1,} "c"{,2} "d"{ 0 , 1 }"#, &["aab", "aabbccd"], &["aa", "aabccc"]),
        // Line breaks, comments and what only shapes trees.
        ("\n// c\nstart: A // c\n  # c\n\n  | B -> b\nA: \"//\"\nB:\"#\"", &["//", "#"], &["", "a"]),
        ("start: (\n \"a\" // c\n | \"b\"\n)+ \\\n \"c\"\r\n", &["abc", "bc"], &["c", "ab"]),
        ("?start: !_x-y->z\n!_x-y: \"a\"", &[], &[]),
        ("?start: _x-y->z\n!?_x-y: \"a\"", &["a"], &[""]),
        ("start:\n | \"a\"", &["", "a"], &["aa"]),
        // Recursion, also on the left.
        ("start: start \"a\" | \"b\"", &["b", "baa"], &["a", ""]),
        ("start: \"(\" start \")\" | \"x\"", &["x", "((x))"], &["(x", "()"]),
        // Regular expressions in the syntax of the regex crate.
        (r"start: /a.c/", &["abc", "a\rc"], &["a\nc"]),
        (r"start: /a.c/s", &["abc", "a\nc"], &["ac"]),
        (r"start: /[a-c]x/i", &["AX", "bX"], &["dx"]),
        ("start: /a b # c\n \\x20 c/x", &["ab c"], &["a b c", "abc"]),
        (r"start: /^(?:a|b\/)+$/", &["ab/a"], &["", "a/"]),
        (r"start: /\d\w\s/u", &["1a ", "٣é\u{3000}"], &["aa "]),
        (r"start: /[[:alpha:]&&[^x]]\x41\u{42}/", &["aAB"], &["xAB"]),
        (r"start: /(?P<n>a)(?i:b)/", &["ab", "aB"], &["Ab"]),
        ("start: /(.+)/ LF /(.*)/\n%import common.LF", &["a\n", "a\nb"], &["\n", "a\n\n"]),
        // Terminals.
        ("start: A B\nA: B \"x\"\nB: \"y\"~2 | [\"z\"]", &["xyy", "zxz", "x"], &["yx", ""]),
        (
            "start: NUMBER %json {\"type\": \"boolean\"} \"!\"\n%import common.NUMBER",
            &["1true!"],
            &["1null!"],
        ),
        // Every reading counts: `A` can end before the last `a`, and keywords need no blank.
        ("start: A \"a\"\nA: /a+/", &["aa", "aaa"], &["a"]),
        ("start: \"if\" NAME | NAME\nNAME: /[a-z]+/", &["ifx", "if", "iff"], &["", "if x"]),
        // Ignored text stands after lexemes only.
        (
            "start: \"a\" B*\nB: \"b\" \"c\"\n%ignore \" \"\n%ignore /#.*/",
            &["a bc # d", "a  "],
            &[" a", "ab c"],
        ),
        ("start: \"a\"~2 \"\"\n%ignore \" \" | \"-\"", &["a -a-"], &["-aa", "a"]),
        ("start: C\nC: \"a\" \"b\"\n%ignore / +/", &["ab", "ab  "], &["a b", " ab"]),
        // Imports.
        (
            "start: N+\n%import common.INT -> N\n%import common (\n  WS, // c\n LETTER\n) // c\n%ignore WS // c",
            &["1 2"],
            &["", "a"],
        ),
        ("start: S\n%import common.ESCAPED_STRING->S", &[r#""a\"b""#, r#""\\""#], &[r#""\""#, "\"a\nb\""]),
        ("start: C\n%import common.C_COMMENT -> C", &["/**/", "/* a* **/"], &["/*/", "/**/*/"]),
        ("start: N\n%import common.NEWLINE -> N", &["\n", "\r\n\n"], &["", "\r"]),
        ("start: N\n%import common.SIGNED_FLOAT -> N", &["-1.", ".5e3", "+1e-2"], &["1", "."]),
        ("start: N _EXP\n%import common.SIGNED_INT -> N\n%import common._EXP", &["-1e5"], &["1", "-e5"]),
        ("start: N\n%import common.CPP_COMMENT -> N", &["// a"], &["/ a", "// a\n"]),
        ("start: N\n%import common.SH_COMMENT -> N", &["# a"], &["a", "# a\n"]),
        ("start: N\n%import common.HEXDIGIT -> N", &["f", "F", "0"], &["g"]),
        ("start: N\n%import common.CNAME -> N", &["_a1"], &["1a"]),
        ("start: N\n%import common.WORD -> N", &["aZ"], &["a1"]),
    ];
    for &(source, accept, reject) in cases {
        // A source without texts must be refused.
        if accept.is_empty() {
            assert!(Grammar::lark(source, &Limits::default()).is_err(), "{source}");
            continue;
        }
        let lark = grammar(source);
        let gbnf = lark.to_gbnf().expect("text");
        let gbnf = Grammar::gbnf(&gbnf, &Limits::default()).unwrap_or_else(|error| panic!("{gbnf}\n{error}"));
        for (texts, expected) in [(accept, true), (reject, false)] {
            for text in texts {
                assert_eq!(lark.accepts(text.as_bytes()), expected, "{source}\n{text:?}");
                assert_eq!(gbnf.accepts(text.as_bytes()), expected, "GBNF of {source}\n{text:?}");
            }
        }
    }
}

#[test]
fn token_terminals_are_written_as_in_gbnf() {
    let gbnf = grammar("start: <think> /[a-z]*/ <[7]> _end\n_end: <think>").to_gbnf().expect("text");
    assert_eq!(gbnf, "root ::= <think> [a-z]* <[7]> end\nend ::= <think>\n");
}

#[test]
fn names_in_gbnf_are_unique_and_readable_by_llama_cpp() {
    let source = "start: root a_b a-b ignored _A+\nroot: \"r\"\na_b: \"b\"\na-b: \"c\"\nignored: \"i\"\n_A: \"a\"\n%ignore \" \"";
    let gbnf = grammar(source).to_gbnf().expect("text");
    let expected = r#"root ::= root-2 a-b a-b-2 ignored (A ignored-2)+
root-2 ::= "r" ignored-2
a-b ::= "b" ignored-2
a-b-2 ::= "c" ignored-2
ignored ::= "i" ignored-2
A ::= "a"
ignored-2 ::= " "*
"#;
    assert_eq!(gbnf, expected);
}

#[test]
fn lark_can_be_a_part_of_an_answer() {
    let patch = Part::Lark("start: \"a\" B\nB: \"b\"\n%ignore \" \"".to_owned());
    let part = Part::sequence([Part::literal("<"), patch.clone(), Part::literal(">")]);
    let of = |part| Grammar::of_parts(part, &SchemaOptions::default(), &Limits::default()).expect("valid");
    assert!(of(&part).accepts(b"<a b >") && !of(&part).accepts(b"< ab>"));
    assert!(of(&patch).accepts(b"a b") && !of(&patch).accepts(b"<a b>"));
}

#[test]
fn warns_about_unreachable_definitions_but_not_about_imports() {
    let source = "start: \"a\"\nlost: LOST\nLOST: \"b\"\n%import common.WS\n%ignore \" \"";
    let warnings: Vec<String> = grammar(source).warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "line 2: rule `lost` is unreachable from `start`",
            "line 3: rule `LOST` is unreachable from `start`"
        ]
    );
}

/// Pieces of grammars, which mutations insert.
const PIECES: [&str; 36] = [
    "start",
    ":",
    "|",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "~",
    "..",
    "->",
    "/",
    "\"",
    "\\",
    "\n",
    " ",
    "%ignore",
    "%import common.",
    "%json {}",
    "WS",
    "a",
    "A",
    "+",
    "*",
    "?",
    "!",
    "1",
    "4000000000",
    ",",
    "<[1]>",
    "#",
    "//",
    "é",
    "(?i)",
    "\\p{L}",
];

#[test]
fn changed_sources_neither_panic_nor_run_long() {
    let limits = Limits { work: 1 << 23, bytes: 32 << 20, states: 1 << 14, ..Limits::default() };
    let mut random = Random(3);
    let mut compiled = 0;
    for (_, source) in shipped() {
        for _ in 0..120 {
            let mut chars: Vec<char> = source.chars().collect();
            for _ in 0..=random.below(2) {
                let at = random.below(chars.len());
                let end = (at + random.below(6)).min(chars.len());
                let piece = PIECES[random.below(PIECES.len())];
                chars.splice(at..end, piece.chars());
            }
            let source: String = chars.into_iter().collect();
            let start = Instant::now();
            match Grammar::lark(&source, &limits) {
                Ok(_) => compiled += 1,
                Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{source}");
        }
    }
    assert!(compiled > 50, "{compiled} compiled");
}

#[test]
fn large_sources_end_at_a_limit() {
    let limits = Limits::default();
    let many = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    for source in [
        format!("start: {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("start: {}", "[".repeat(100_000)),
        format!("start: /{}a{}/", "(".repeat(50_000), ")".repeat(50_000)),
        format!("start: {}", many("/\\w/i ", 1 << 20)),
        format!("start: /{}/i", many("[^a]", 100_000)),
        format!("start: {}", many("|", 3 << 20)),
        format!("start: \"a\"\n{}", many("b:\n", 3 << 20)),
        format!("start: \"{}\"i", many("a", 3 << 20)),
        "start: (((\"a\"~1000)~1000)~1000)~1000".to_owned(),
        format!("start: \"a\"\n{}", many(" ", 5 << 20)),
    ] {
        let start = Instant::now();
        assert!(Grammar::lark(&source, &limits).is_err(), "{}", &source[..40]);
        assert!(start.elapsed() < Duration::from_secs(60), "{}", &source[..40]);
    }
    // A chain of terminals is not recursive, and needs no deep recursion.
    let chain: Vec<String> = (0..5000).map(|at| format!("A{at}: A{}\n", at + 1)).collect();
    let result = Grammar::lark(&format!("start: A0\n{}A5000: \"a\"", chain.concat()), &limits);
    assert!(result.is_ok_and(|grammar| grammar.accepts(b"a")));
}
