//! GBNF grammars and regular expressions.

use std::fmt::Write;

use fastrand::Rng;

use super::{multiply, pick, size, text_of};

const GBNF_SEEDS: &[&str] = &[
    include_str!("../../grammars/arithmetic.gbnf"),
    include_str!("../../grammars/c-subset.gbnf"),
    include_str!("../../grammars/csv.gbnf"),
    include_str!("../../grammars/email.gbnf"),
    include_str!("../../grammars/json.gbnf"),
    include_str!("../../grammars/markdown-table.gbnf"),
    include_str!("../../grammars/python-expression.gbnf"),
    include_str!("../../grammars/sql-select.gbnf"),
    include_str!("../../grammars/tool-call-hermes.gbnf"),
];

/// Generates a GBNF grammar.
pub(super) fn gbnf(rng: &mut Rng) -> (&'static str, String) {
    match rng.u32(..10) {
        0..3 => ("random rules", random_rules(rng)),
        3..6 => shaped(rng),
        6 | 7 => ("rules with schemas", with_schemas(rng)),
        _ => {
            let seed = pick(rng, GBNF_SEEDS).to_string();
            ("mutated rules", mutate(rng, seed))
        }
    }
}

fn random_rules(rng: &mut Rng) -> String {
    let rules = size(rng, 60);
    let mut grammar = String::new();
    for rule in 0..rules {
        let name = if rule == 0 { "root".to_owned() } else { format!("r{rule}") };
        let alternatives: Vec<String> = (0..size(rng, 12)).map(|_| sequence(rng, rules, 0)).collect();
        let way_out = pick(rng, &["\"a\"", "\"b\" | \"\"", "[0-1]", "\"\\\"\"", "\"\""]);
        let _ = writeln!(grammar, "{name} ::= {} | {way_out}", alternatives.join(" | "));
    }
    grammar
}

fn sequence(rng: &mut Rng, rules: usize, depth: usize) -> String {
    let items: Vec<String> = (0..size(rng, 6)).map(|_| item(rng, rules, depth)).collect();
    items.join(" ")
}

fn item(rng: &mut Rng, rules: usize, depth: usize) -> String {
    let item = match rng.u32(..if depth < 4 { 10 } else { 7 }) {
        0 | 1 => pick(rng, &["\"a\"", "\"ab\"", "\"{\"", "\"0\"", "\" \"", "\"é\"", "\"true\"", "\"\""])
            .to_string(),
        2 => pick(rng, &["[^a]", "[^\"\\\\]", ".", "[ab]", "[0-9]", "[a-cé-ü]", "[日-月]"]).to_string(),
        3..7 => match rng.usize(..rules) {
            0 => "root".to_owned(),
            rule => format!("r{rule}"),
        },
        7 => format!("({} | {})", sequence(rng, rules, depth + 1), sequence(rng, rules, depth + 1)),
        _ => format!("({})", sequence(rng, rules, depth + 1)),
    };
    let repeat = match rng.u32(..14) {
        0 => "*".to_owned(),
        1 => "+".to_owned(),
        2 => "?".to_owned(),
        3 => format!("{{{}}}", size(rng, 2000)),
        4 => format!("{{0,{}}}", size(rng, 5000)),
        5 => format!("{{{},}}", size(rng, 300)),
        _ => String::new(),
    };
    format!("{item}{repeat}")
}

#[expect(clippy::too_many_lines, reason = "a list of shapes")]
fn shaped(rng: &mut Rng) -> (&'static str, String) {
    let count = size(rng, 20_000);
    let few = size(rng, 200);
    let mut grammar = String::new();
    let name = match rng.u32(..9) {
        0 => {
            let _ = writeln!(grammar, "root ::= a0");
            for at in 0..few {
                let _ =
                    writeln!(grammar, "a{at} ::= a{} {} a{}", at + 1, pick(rng, &["", "\"x\"", "|"]), at + 1);
            }
            let _ = writeln!(grammar, "a{few} ::= {}", pick(rng, &["\"x\"", "\"\"", "[a-z]?"]));
            "rules that double"
        }
        1 => {
            let (before, after) =
                pick(rng, &[("", ""), ("\"a\" | ", ""), ("", " | \"a\""), ("\"a\"? ", " \"b\"?")]);
            let _ = writeln!(grammar, "root ::= r0");
            for at in 0..count {
                let _ = writeln!(grammar, "r{at} ::= {before}r{}{after}", at + 1);
            }
            let _ = writeln!(grammar, "r{count} ::= \"b\"");
            "a chain of rules"
        }
        2 => {
            let operators = few.min(60);
            let _ = writeln!(grammar, "root ::= e");
            let _ = write!(grammar, "e ::= [0-9]+ | \"(\" e \")\"");
            for at in 0..operators {
                let _ =
                    write!(grammar, " | e {} e", pick(rng, &["\"+\"", "\"-\" \" \"?", "\"\"", "\" and \""]));
                if at % 3 == 2 {
                    let _ = write!(grammar, " | e e e?");
                }
            }
            let _ = writeln!(grammar);
            "ambiguous operators"
        }
        3 => {
            let levels = few.min(80);
            let _ = writeln!(grammar, "root ::= l0");
            for at in 0..levels {
                let _ = writeln!(
                    grammar,
                    "l{at} ::= l{at} \"{at}\" l{} | l{} | l{} l{at}",
                    at + 1,
                    at + 1,
                    at / 2
                );
            }
            let _ = writeln!(grammar, "l{levels} ::= [a-z]* | \"(\" root \")\"");
            "left recursion in levels"
        }
        4 => {
            let depth = size(rng, 300);
            let mut body = pick(rng, &["\"a\"", "[a-z]", "\"\"", "[^a]"]).to_string();
            for _ in 0..depth {
                let repeat = match rng.u32(..4) {
                    0 => format!("{{0,{}}}", size(rng, 100)),
                    1 => "*".to_owned(),
                    2 => "?".to_owned(),
                    _ => format!("{{{}}}", size(rng, 4)),
                };
                body = format!("({body}){repeat}");
            }
            let _ = writeln!(grammar, "root ::= {body}");
            "repetition in repetition"
        }
        5 => {
            let parts: Vec<String> =
                (0..count).map(|at| format!("\"{}{at}\"", pick(rng, &["", "a", "x"]))).collect();
            let end = pick(rng, &["", "*", "{0,50}", " root?"]);
            let _ = writeln!(grammar, "root ::= ({}){end}", parts.join(pick(rng, &[" | ", "? ", " "])));
            "many literals"
        }
        6 => {
            let classes: String = (0..few)
                .map(|at| {
                    format!(
                        "[\\u{:04X}-\\u{:04X}{}]{}",
                        at * 97 + 0x100,
                        at * 131 + 0x2000,
                        pick(rng, &["a", "b-d", "0"]),
                        pick(rng, &["", "*", "?", "{3}"])
                    )
                })
                .collect::<Vec<_>>()
                .join(pick(rng, &[" ", " | "]));
            let _ = writeln!(grammar, "root ::= ({classes}){}", pick(rng, &["", "*", "{0,9}"]));
            "many classes"
        }
        7 => {
            let _ = writeln!(grammar, "root ::= n0 \"x\"");
            for at in 0..few {
                let _ = writeln!(
                    grammar,
                    "n{at} ::= \"\" | n{} n{} | n{at} \"a\"?",
                    (at + 1) % few,
                    (at * 3 + 1) % few
                );
            }
            "hidden left recursion"
        }
        _ => {
            let _ = writeln!(grammar, "root ::= \"{}\"", pick(rng, &["a", "é", "\\n"]).repeat(count * 20));
            "a long literal"
        }
    };
    (name, grammar)
}

fn with_schemas(rng: &mut Rng) -> String {
    let count = size(rng, 200);
    let mut grammar = String::from("root ::= ");
    let alone = rng.bool();
    let names: Vec<String> = (0..count).map(|at| format!("s{at}")).collect();
    grammar.push_str(&names.join(pick(rng, &[" | ", " ", "? \" \" ", "* "])));
    grammar.push('\n');
    for at in 0..count {
        let schema = text_of(&multiply::schema(rng).1);
        let schema = if schema.len() > (1 << 19) / count { "{\"type\":\"integer\"}" } else { &schema };
        let around = if alone { "" } else { pick(rng, &["\"<\"", "s0?", "\" \"*", "[a-z]{0,20}"]) };
        let _ = writeln!(grammar, "s{at} ::= {around} %json {schema}");
    }
    grammar
}

/// Repeats, removes or moves pieces of text, and increases repetition counts.
pub(super) fn mutate(rng: &mut Rng, mut text: String) -> String {
    for _ in 0..size(rng, 12) {
        let place = |rng: &mut Rng, text: &str| {
            let mut at = rng.usize(..=text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (one, other) = (place(rng, &text), place(rng, &text));
        let (from, to) = (one.min(other), one.max(other).min(one.min(other) + 200));
        let to = (to..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
        let piece = text[from..to].to_owned();
        match rng.u32(..7) {
            0 => text.insert_str(to, &piece.repeat(size(rng, 200))),
            1 => text.replace_range(from..to, ""),
            2 => text.insert_str(
                from,
                pick(rng, &["(", ")", "{0,900}", "*", "+", "?", "|", " root ", "\"", "[^a]", "\\"]),
            ),
            3 => text = text.replace('+', pick(rng, &["*", "{2,90}", "{0,3000}", "?"])),
            4 => text = text.replace('*', pick(rng, &["+", "{0,700}", "?", "**"])),
            5 => text = text.replacen(") ", "){0,400} ", 3),
            _ => text.insert_str(place(rng, &text), &piece),
        }
        if text.len() > 1 << 20 {
            break;
        }
    }
    text
}

/// Generates a regular expression.
pub(super) fn regex(rng: &mut Rng) -> (&'static str, String) {
    const SEEDS: &[&str] = &[
        "[a-z]+(-[0-9]{2})?",
        "(a|b)*c",
        "\\d{4}-\\d{2}-\\d{2}",
        "(\\w+\\s*)+",
        "[^,]{0,30}(,[^,]{0,30}){3}",
        "\\p{L}{1,20}",
        "(?i)hello|world",
        "(?s).*a.{12}",
        "((a?){30}a{30}|b+)*",
        "[\\x{100}-\\x{2000}]+\\d",
    ];
    match rng.u32(..4) {
        0 => {
            let words: Vec<String> = (0..size(rng, 20_000))
                .map(|at| format!("{}{at}", pick(rng, &["w", "", "x.", "é"])))
                .collect();
            ("many words", words.join("|"))
        }
        1 => {
            let mut pattern = pick(rng, SEEDS).to_string();
            for _ in 0..size(rng, 260) {
                pattern = match rng.u32(..5) {
                    0 => format!("({pattern}){{0,{}}}", size(rng, 300)),
                    1 => format!("({pattern}|{})", pick(rng, SEEDS)),
                    2 => format!("({pattern})*"),
                    3 => format!("(?:{pattern})?{}", pick(rng, SEEDS)),
                    _ => format!("({pattern})+"),
                };
            }
            ("nested repetition", pattern)
        }
        2 => {
            let parts = (0..size(rng, 3000))
                .map(|_| format!("({}){}", pick(rng, SEEDS), pick(rng, &["", "?", "*", "{0,9}"])));
            let pattern = parts.collect::<Vec<_>>().concat();
            ("long sequence", pattern)
        }
        _ => {
            let seed = pick(rng, SEEDS).repeat(size(rng, 20));
            ("mutated expression", mutate(rng, seed))
        }
    }
}
