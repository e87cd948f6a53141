use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::regular::TextDfa;

const FORMATS: [&str; 19] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

fn automaton(name: &str, draft: Draft) -> TextDfa {
    let mut expressions = Expressions::new();
    let language = Format::get(name, draft).expect(name).language(&mut expressions);
    TextDfa::new(&mut expressions, &[language], 100_000).unwrap()
}

fn accepts(dfa: &TextDfa, text: &str) -> bool {
    let end = text.chars().try_fold(dfa.start(), |state, c| dfa.next(state, c));
    end.is_some_and(|state| dfa.label(state) != 0)
}

/// Returns short texts of the language of `dfa` that together take every transition.
fn samples(dfa: &TextDfa) -> Vec<String> {
    let states = 0..dfa.len() as u32;
    let mut beginnings: BTreeMap<u32, String> = BTreeMap::from([(dfa.start(), String::new())]);
    let mut pending = VecDeque::from([dfa.start()]);
    while let Some(state) = pending.pop_front() {
        for &(low, _, to) in dfa.transitions(state) {
            let beginning = format!("{}{}", beginnings[&state], char::from_u32(low).unwrap());
            beginnings.entry(to).or_insert_with(|| {
                pending.push_back(to);
                beginning
            });
        }
    }
    let mut endings: BTreeMap<u32, String> = BTreeMap::new();
    endings.extend(states.clone().filter(|&state| dfa.label(state) != 0).map(|state| (state, String::new())));
    while endings.len() < dfa.len() {
        let longer = states.clone().filter(|state| !endings.contains_key(state)).filter_map(|state| {
            let next = dfa.transitions(state).iter().find(|next| endings.contains_key(&next.2))?;
            Some((state, format!("{}{}", char::from_u32(next.1).unwrap(), endings[&next.2])))
        });
        let longer = longer.collect::<Vec<_>>();
        endings.extend(longer);
    }
    let over = |(state, &(low, high, to)): (u32, &(u32, u32, u32))| {
        let chars = [low, u32::midpoint(low, high), high].map(|c| char::from_u32(c).unwrap());
        chars.map(|c| format!("{}{c}{}", beginnings[&state], endings[&to]))
    };
    states.flat_map(|state| dfa.transitions(state).iter().map(move |t| (state, t))).flat_map(over).collect()
}

/// The validator of another crate must accept all samples. It does not know the international
/// formats.
#[test]
fn automata_agree_with_another_validator() {
    for name in FORMATS {
        let schema = serde_json::json!({ "format": name });
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for text in samples(&automaton(name, Draft::D2020)) {
            assert!(validator.is_valid(&Value::from(text.as_str())), "{name}: {text:?}");
        }
    }
}

#[test]
fn automata_are_small() {
    for name in FORMATS {
        let states = automaton(name, Draft::D2020).len();
        assert!(states <= 3000, "{name}: {states}");
    }
}

#[test]
fn accepts_and_rejects_edge_cases() {
    let label = "a".repeat(63);
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "date",
            &["2024-02-29", "2000-02-29", "0001-01-01"],
            &["1900-02-29", "2023-02-29", "2024-04-31", "2024-1-01"],
        ),
        (
            "time",
            &["23:59:60Z", "00:29:60+00:30", "15:59:60.5-08:00", "12:00:00.123+23:59"],
            &["23:59:60+01:00", "22:59:60Z", "24:00:00Z", "12:00:00", "12:00:00.Z"],
        ),
        ("date-time", &["1990-12-31t23:59:60z"], &["1990-12-31 23:59:59Z", "1990-02-30T00:00:00Z"]),
        ("duration", &["P1Y2M3DT4H5M6S", "P2W", "PT36H"], &["P", "PT", "P1Y2D", "PT1H2S", "P1Y2W"]),
        ("ipv4", &["0.0.0.0", "255.249.199.99"], &["256.0.0.0", "01.0.0.0", "1.2.3"]),
        (
            "ipv6",
            &[
                "::",
                "1::",
                "::8",
                "1:2:3:4:5:6:7:8",
                "1:2:3:4:5:6:7::",
                "::2:3:4:5:6:7:8",
                "::1.2.3.4",
                "1:2:3:4:5:6:1.2.3.4",
                "1::3:4:5:6:1.2.3.4",
            ],
            &[
                ":",
                "1:2:3:4:5:6:7",
                "1:2:3:4:5:6:7:8::",
                "::1:2:3:4:5:6:7:8",
                "1::2::3",
                "1.2.3.4::",
                "1:2:3:4:5:6:7:1.2.3.4",
            ],
        ),
        (
            "hostname",
            &["a", "a-b.c", "1host", "a--b", &label],
            &["", "-a", "a-", "a..b", "a.", "a_b", "xn--x", "ab--c"],
        ),
        (
            "email",
            &["a.b+c@d", "\"a b\\\"\"@c.d", "a@[1.2.3.4]", "a@[IPv6:::1]"],
            &["a", "a@", ".a@b", "a.@b", "a b@c", "a@b_c"],
        ),
        ("idn-email", &["실례@실례.테스트", "\"é\"@b"], &["a@", "a＠b"]),
        (
            "idn-hostname",
            &["실례.테스트", "straße。de", "אב1.a"],
            &["a.\u{301}b", "-ä", "א.1", "aא", "äb--c", "Ä"],
        ),
        (
            "uri",
            &["a:", "http://u:p@h:80/p?q#f", "http://[::1]/", "urn:a:b", "a:/b//c"],
            &["a", "//h", "1a:", "a:%4", "a:é", "a:[b]"],
        ),
        ("uri-reference", &["", "a", "?", "#", "//", "./a:b", "a/b:c"], &["a b", "1:b", "%", "\\"]),
        ("iri", &["http://é.ö/ü?\u{E000}#ß"], &["é", "a:\u{E000}", "a:\u{FDD0}"]),
        ("iri-reference", &["é", "#é"], &["é é", "\\é"]),
        (
            "uri-template",
            &["", "{a}", "é{?a,b*,c:9999}'"],
            &["{", "}", "{}", "{a", "{a,}", "{a:0}", "{=a}", " "],
        ),
        ("uuid", &["2EB8AA08-aa98-11ea-b4aa-73b441d16380"], &["2eb8aa08aa9811eab4aa73b441d16380", ""]),
        ("json-pointer", &["", "/", "/a~0b~1/\"\\"], &["a", "#/a", "/~", "/~2"]),
        ("relative-json-pointer", &["0", "1#", "12/a"], &["", "/a", "01", "0#/a", "-1"]),
        (
            "regex",
            &["", "^a+?(b|[^a-e\\d-]{2,}){3,14}$", "(?=a)(?<!b)\\u0041\\cA", "[]", "[^]", "((a))"],
            &["(", ")", "*", "a**", "[", "[b-a]", "a{2,1}", "\\a", "(?i)a", "\\", "{", "^*", "(?=a)*"],
        ),
    ];
    for (name, valid, invalid) in cases {
        let dfa = automaton(name, Draft::D2020);
        for text in *valid {
            assert!(accepts(&dfa, text), "{name}: {text:?} is valid");
        }
        for text in *invalid {
            assert!(!accepts(&dfa, text), "{name}: {text:?} is invalid");
        }
    }
    assert!(accepts(&automaton("hostname", Draft::D6), "xn--x.ab--c"));
    assert!(Format::get("slug", Draft::D2020).is_none());
}

#[test]
fn lengths_are_bounded() {
    let hostname = automaton("hostname", Draft::D2020);
    let (label, longer) = ("a".repeat(63), "a".repeat(64));
    assert!(accepts(&hostname, &[&label[..], &label, &label, "a"].join(".")));
    assert!(!accepts(&hostname, &[&label[..]; 4].join(".")));
    assert!(!accepts(&hostname, &longer));
    for format in ["email", "idn-email"] {
        let email = automaton(format, Draft::D2020);
        assert!(accepts(&email, &format!("{longer}@{label}")));
        assert!(!accepts(&email, &format!("{longer}a@{label}")));
    }
    let idn_email = automaton("idn-email", Draft::D2020);
    assert!(accepts(&idn_email, &format!("{}@a", "é".repeat(32))));
    assert!(!accepts(&idn_email, &format!("{}@a", "é".repeat(33))));
}

/// Formats whose subset lacks some valid texts of the suite. No subset contains an invalid text.
const LEFT_OUT: [&str; 3] = ["hostname", "idn-hostname", "regex"];

/// Runs the tests of the JSON-Schema-Test-Suite in the folder that `FORMWORK_SCHEMA_SUITE` names.
#[test]
fn the_suite_agrees() {
    let Ok(folder) = std::env::var("FORMWORK_SCHEMA_SUITE") else { return };
    let drafts = [
        ("draft4", Draft::D4),
        ("draft6", Draft::D6),
        ("draft7", Draft::D7),
        ("draft2019-09", Draft::D2019),
        ("draft2020-12", Draft::D2020),
    ];
    let mut checked = 0;
    for (name, draft) in drafts {
        for file in std::fs::read_dir(Path::new(&folder).join(name).join("optional/format")).unwrap() {
            let groups = std::fs::read(file.unwrap().path()).unwrap();
            let groups: Value = serde_json::from_slice(&groups).unwrap();
            for group in groups.as_array().unwrap() {
                checked += check_group(group, draft);
            }
        }
    }
    assert!(checked > 1500, "{checked}");
}

fn check_group(group: &Value, draft: Draft) -> usize {
    let Some(name) = group["schema"]["format"].as_str().filter(|name| FORMATS.contains(name)) else {
        return 0;
    };
    let dfa = automaton(name, draft);
    let mut checked = 0;
    for test in group["tests"].as_array().unwrap() {
        let Some(text) = test["data"].as_str() else { continue };
        let is_valid = test["valid"].as_bool().unwrap();
        let is_left_out = is_valid && LEFT_OUT.contains(&name);
        assert!(accepts(&dfa, text) == is_valid || is_left_out, "{name}: {text:?} is {is_valid}");
        checked += 1;
    }
    checked
}
