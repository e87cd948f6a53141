//! A field definition: one byte for the format, then the text.
#![no_main]

use formwork_fields::{Definition, Format};
use formwork_fuzz::limits;
use libfuzzer_sys::fuzz_target;

const FORMATS: [Format; 3] = [Format::Json, Format::Yaml, Format::Toml];

fuzz_target!(|data: &[u8]| {
    let [format, source @ ..] = data else { return };
    let Ok(source) = str::from_utf8(source) else { return };
    let Ok(definition) = Definition::parse(source, FORMATS[usize::from(format % 3)]) else { return };
    for format in FORMATS {
        let text = definition.to_text(format).expect("a definition can be written");
        assert_eq!(Definition::parse(&text, format).as_ref(), Ok(&definition), "{text}");
    }
    assert!(!definition.template().is_empty() && definition.schema().is_object());
    if let Ok(grammar) = definition.grammar(&limits()) {
        assert!(grammar.warnings().is_empty(), "{}", definition.gbnf());
        let shortest = String::from_utf8(grammar.shortest()).expect("JSON is UTF-8");
        // The validator has the same recursion limit as JSON libraries.
        let errors = definition.validate(&shortest);
        assert!(
            errors.is_empty() || errors[0].message.contains("recursion limit"),
            "{shortest}: {}",
            errors[0]
        );
    }
});
