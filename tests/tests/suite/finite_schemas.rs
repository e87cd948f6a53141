//! Compares masks of schemas with every keyword with the slow reference, which enumerates all
//! texts.

use std::sync::Arc;

use formwork_grammar::{
    Constraint, Grammar, GrammarError, Layout, Limits, Order, Profile, SchemaOptions, Undeclared,
};
use formwork_model::{Model, OpenOptions};
use formwork_tests::random::{self, Random, schema};
use formwork_tests::reference::finite::{self, Position, Reference, Tree};
use formwork_tests::reference::{TextTokens, reference_mask};
use formwork_vocab::{Token, TokenId, TokenKind, TokenSet, Tokenizer, Vocabulary};
use serde_json::{Value, json};

/// Number of masks to compare per output.
const STEPS: usize = 16;

fn options(random: &mut Random) -> SchemaOptions {
    SchemaOptions {
        profile: *random.pick(&[Profile::Generate, Profile::Accept]),
        layout: *random.pick(&[
            Layout::Spaced,
            Layout::Compact,
            Layout::Pretty,
            Layout::Flexible,
            Layout::Inside,
        ]),
        order: *random.pick(&[Order::Declared, Order::Any]),
        undeclared: Undeclared::Allow,
        ..SchemaOptions::default()
    }
}

/// Counts of compared masks and schemas.
#[derive(Default, Debug)]
struct Tally {
    /// Number of compared masks.
    masks: usize,
    /// Number of schemas with compared masks.
    schemas: usize,
    /// Number of schemas without values, according to both sides.
    empty: usize,
    /// Number of schemas that the engine refuses for another reason.
    refused: usize,
}

/// Compares masks along random outputs of random schemas with the reference's masks.
fn compare(vocabulary: &Arc<Vocabulary>, random: &mut Random, masks: usize) -> Tally {
    let tokens = TextTokens::new(vocabulary);
    let mut tally = Tally::default();
    while tally.masks < masks {
        let options = options(random);
        let schema = schema::finite(random, &options);
        let Some(reference) = Reference::new(&schema, &options) else { continue };
        // Every third schema is embedded in a GBNF grammar.
        let compiled = if random.below(3) == 0 {
            Grammar::gbnf_with_schemas(&format!("root ::= %json {schema}"), &options, &Limits::default())
        } else {
            Grammar::json_schema(&schema, &options, &Limits::default())
        };
        match compiled {
            Ok(grammar) => {
                let mut walk = Walk { vocabulary, tokens: &tokens, reference: &reference, text: Vec::new() };
                let shown =
                    |text: &[u8]| format!("after {:?}, {options:?}\n{schema}", String::from_utf8_lossy(text));
                tally.masks += walk.compare(&grammar, random, shown);
                tally.schemas += 1;
            }
            Err(error) if is_empty(&error) => {
                assert!(
                    reference.values.is_empty(),
                    "{:?} satisfies {options:?}\n{schema}",
                    reference.values[0]
                );
                tally.empty += 1;
            }
            Err(_) => tally.refused += 1,
        }
    }
    tally
}

fn is_empty(error: &GrammarError) -> bool {
    error.problem().ends_with("no value can satisfy this schema")
}

/// A random output.
struct Walk<'a> {
    vocabulary: &'a Arc<Vocabulary>,
    tokens: &'a TextTokens<'a>,
    reference: &'a Reference,
    text: Vec<u8>,
}

impl Walk<'_> {
    fn compare(&mut self, grammar: &Grammar, random: &mut Random, shown: impl Fn(&[u8]) -> String) -> usize {
        let mut matcher = Constraint::new(grammar, Arc::clone(self.vocabulary))
            .expect("every token is in the vocabulary")
            .matcher();
        for step in 1..=STEPS {
            let mask = matcher.mask();
            let (least, most) = (self.expected(&self.reference.tree), self.expected(&self.reference.widest));
            let differs = |&token: &TokenId| {
                let is_allowed = mask.contains(token);
                is_allowed && !most.contains(token) || !is_allowed && least.contains(token)
            };
            if let Some(token) = self.vocabulary.ids().find(differs) {
                let bytes = String::from_utf8_lossy(self.vocabulary.bytes(token));
                panic!("{bytes:?}: {} expected {}", least.contains(token), shown(&self.text));
            }
            let allowed: Vec<TokenId> = mask.iter().filter(|&token| !self.vocabulary.is_end(token)).collect();
            if allowed.is_empty() || step == STEPS {
                return step;
            }
            let token = self.choose(&allowed, random);
            matcher.commit(token).expect("in the mask");
            self.text.extend_from_slice(self.vocabulary.bytes(token));
        }
        STEPS
    }

    fn expected(&self, tree: &Tree) -> TokenSet {
        let positions = tree.after(&self.text);
        reference_mask(
            self.tokens,
            &positions,
            tree.accepts(&positions),
            |positions: &Vec<Position>, byte| {
                let next = tree.step(positions, byte);
                (!next.is_empty()).then_some(next)
            },
        )
    }

    /// Chooses the next token, mostly one that is not only whitespace.
    fn choose(&self, allowed: &[TokenId], random: &mut Random) -> TokenId {
        let blank = |token: &TokenId| self.vocabulary.bytes(*token).iter().all(u8::is_ascii_whitespace);
        let solid: Vec<TokenId> = allowed.iter().filter(|token| !blank(token)).copied().collect();
        let any = solid.is_empty() || random.below(6) == 0;
        *random.pick(if any { allowed } else { &solid })
    }
}

#[test]
fn masks_of_every_keyword_equal_the_reference() {
    let mut random = Random::new(20);
    for vocabulary in [Arc::new(random::vocabulary(&mut random)), small_vocabulary()] {
        let tally = compare(&vocabulary, &mut random, 1000);
        assert!(tally.masks >= 1000 && tally.empty > 0, "{tally:?}");
    }
}

/// Compares masks on real tokenizers, if available: those of the models, and the file that
/// `FORMWORK_TEST_TOKENIZER` names. `FORMWORK_TEST_PAIRS` sets the number of masks for each, and
/// `FORMWORK_TEST_SEED` selects the schemas.
#[test]
fn masks_of_every_keyword_equal_the_reference_on_real_tokenizers() {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let masks = number("FORMWORK_TEST_PAIRS").unwrap_or(20);
    let seed = number("FORMWORK_TEST_SEED").unwrap_or(21);
    for (name, vocabulary) in vocabularies() {
        let tally = compare(&vocabulary, &mut Random::new(seed as u64), masks);
        eprintln!("{name}: {tally:?}");
    }
}

fn vocabularies() -> Vec<(String, Arc<Vocabulary>)> {
    let models = super::real_models::model_files().into_iter().map(|path| {
        let model = Model::open(&path, OpenOptions::default()).expect("a good file");
        (path.display().to_string(), Arc::clone(model.tokenizer().expect("a good tokenizer").vocabulary()))
    });
    let file = std::env::var_os("FORMWORK_TEST_TOKENIZER").map(|path| {
        let tokenizer =
            Tokenizer::from_json(&std::fs::read(&path).expect("readable")).expect("a good tokenizer");
        (path.to_string_lossy().into_owned(), Arc::clone(tokenizer.vocabulary()))
    });
    models.chain(file).collect()
}

/// Schemas that are difficult for masks.
#[test]
fn masks_of_known_schemas_equal_the_reference() {
    let cases = [
        // Only one alternative continues a name; the other allows any name of one character.
        json!({"anyOf": [
            {"type": "object", "properties": {"ab": {"const": 1}}, "additionalProperties": false},
            {
                "type": "object",
                "propertyNames": {"maxLength": 1},
                "maxProperties": 1,
                "additionalProperties": {"const": 2},
            },
        ]}),
        // A declared name continues, and a pattern matches its first character.
        json!({
            "type": "object",
            "properties": {"ab": {"const": 1}},
            "patternProperties": {"^[^\"]?$": {"const": 2}},
            "additionalProperties": false,
            "propertyNames": {"maxLength": 2},
            "maxProperties": 1,
        }),
        // After text that both alternatives accept, only one continues with letters.
        json!({"anyOf": [
            {
                "type": "array",
                "maxItems": 1,
                "items": {"type": "string", "maxLength": 2, "pattern": "^[^b]*$"},
            },
            {
                "type": "array",
                "maxItems": 2,
                "minItems": 2,
                "items": {"type": "string", "maxLength": 2, "pattern": "^[^b]?b?$"},
            },
        ]}),
        // Listed values evaluate no members.
        json!({"enum": [{"a": 1}, []], "unevaluatedProperties": false}),
    ];
    let mut random = Random::new(23);
    let mut vocabularies = vocabularies();
    vocabularies.push(("random".to_owned(), Arc::new(random::vocabulary(&mut random))));
    vocabularies.push(("small".to_owned(), small_vocabulary()));
    for (_, vocabulary) in &vocabularies {
        let tokens = TextTokens::new(vocabulary);
        for schema in &cases {
            let options = &SchemaOptions::default();
            let reference = Reference::new(schema, options).expect("confined");
            let grammar = Grammar::json_schema(schema, options, &Limits::default()).expect("supported");
            for _ in 0..10 {
                let mut walk = Walk { vocabulary, tokens: &tokens, reference: &reference, text: Vec::new() };
                let shown =
                    |text: &[u8]| format!("after {:?}, {options:?}\n{schema}", String::from_utf8_lossy(text));
                walk.compare(&grammar, &mut random, shown);
            }
        }
    }
}

/// Creates a vocabulary of bytes and a few tokens; no token is a prefix of another.
fn small_vocabulary() -> Arc<Vocabulary> {
    let text = |text: &str| Token { bytes: text.into(), kind: TokenKind::Text };
    let bytes = (0..=255).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte });
    let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
    let tokens: Vec<Token> = bytes.chain(["ab", "ba", "bb", "éa"].map(text)).chain([end]).collect();
    let end = TokenId(tokens.len() as u32 - 1);
    Arc::new(Vocabulary::new(tokens, vec![end]).expect("small and not empty"))
}

/// Checks the reference against another validator, with values of a schema under that schema and
/// the next one.
#[test]
fn the_reference_judges_as_another_validator_does() {
    let mut random = Random::new(22);
    let (mut valid, mut invalid) = (0, 0);
    let mut last = Value::Bool(true);
    while valid + invalid < 8000 {
        let options = options(&mut random);
        let schema = schema::finite(&mut random, &options);
        let Some(reference) = Reference::new(&schema, &options) else { continue };
        for judge in [&schema, &last] {
            let validator = jsonschema::validator_for(judge).expect("a good schema");
            for value in reference.values.iter().take(20) {
                let verdict = finite::is_valid(judge, value);
                assert_eq!(verdict, validator.is_valid(value), "{value} in {judge}");
                if verdict { valid += 1 } else { invalid += 1 }
            }
        }
        last = schema;
    }
    assert!(valid > 1000 && invalid > 1000, "{valid} valid, {invalid} invalid");
}

/// Checks the texts of small schemas against hand-written expectations.
#[test]
fn the_reference_knows_the_texts_of_small_schemas() {
    let accept = SchemaOptions::accept();
    let cases: [(Value, SchemaOptions, &str, &[&str]); 6] = [
        (json!({"enum": [1, "b"]}), SchemaOptions::default(), "", &["\"", "1"]),
        (json!({"const": 1}), accept, "1.", &["0"]),
        (json!({"const": 0}), accept, "-", &["0"]),
        (json!({"const": "b"}), accept, "\"\\", &["u"]),
        (json!({"const": "\""}), SchemaOptions::default(), "\"\\", &["\""]),
        (
            json!({"type": "array", "maxItems": 2, "items": {"const": 1}, "not": {"maxItems": 1}}),
            SchemaOptions::default(),
            "[1, 1",
            &["]"],
        ),
    ];
    for (schema, options, text, expected) in cases {
        let reference = Reference::new(&schema, &options).expect("confined");
        let positions = reference.after(text.as_bytes());
        let follows =
            |byte: &u8| !byte.is_ascii_whitespace() && !reference.tree.step(&positions, *byte).is_empty();
        let following: Vec<u8> = (0..=255).filter(follows).collect();
        assert_eq!(following, expected.concat().into_bytes(), "{text} of {schema}");
    }
}
