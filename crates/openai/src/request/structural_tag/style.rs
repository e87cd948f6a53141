//! JSON, and objects in the notations of tool calls.

use std::sync::Arc;

use formwork_grammar::{Around, Brackets, Literals, Names, Nested, Notation, Part, Strings, ValueType};

use super::super::fields::{Fields, Place};
use crate::RequestError;
use crate::error::Problem;

/// Notation of the members of an object.
#[derive(Clone, Copy)]
enum Style {
    /// `<parameter=NAME>VALUE</parameter>`
    Qwen,
    /// `<parameter name="NAME">VALUE</parameter>`
    Minimax,
    /// `]<]minimax[>[<NAME>VALUE]<]minimax[>[</NAME>`, at every depth.
    MinimaxM3,
    /// `<｜DSML｜parameter name="NAME" string="true">VALUE</｜DSML｜parameter>`
    Deepseek,
    /// Like [`Style::Deepseek`], with a blank before `parameter`.
    DeepseekV41,
    /// `<arg_key>NAME</arg_key><arg_value>VALUE</arg_value>`
    Glm,
    /// `<|open|>argument key="NAME" type="string"<|sep|>VALUE<|close|>argument<|sep|>`
    KimiK3,
}

/// Parses a format of the type `json_schema`.
pub(super) fn json_schema(fields: &mut Fields) -> Result<Part, RequestError> {
    let known = |name: &str| match name {
        "json" => Some(None),
        "qwen_xml" => Some(Some(Style::Qwen)),
        "minimax_xml" => Some(Some(Style::Minimax)),
        "minimax_m3_xml" => Some(Some(Style::MinimaxM3)),
        "deepseek_xml" => Some(Some(Style::Deepseek)),
        "deepseek_v4_1_xml" => Some(Some(Style::DeepseekV41)),
        "glm_xml" => Some(Some(Style::Glm)),
        "kimi_k3_xml" => Some(Some(Style::KimiK3)),
        _ => None,
    };
    let supported = "json, qwen_xml, minimax_xml, minimax_m3_xml, deepseek_xml, deepseek_v4_1_xml, glm_xml \
        and kimi_k3_xml";
    let schema = fields.required("json_schema")?.schema()?;
    let style = fields.read("style", |at| at.one_of(known, supported))?.flatten();
    refuse_options(fields)?;
    Ok(match style {
        Some(style) => Part::Arguments { schema: schema.into(), notation: Arc::new(style.notation()) },
        None => Part::Json(schema.into()),
    })
}

/// Parses a format of the type `qwen_xml_parameter`.
pub(super) fn qwen_parameters(fields: &mut Fields) -> Result<Part, RequestError> {
    let schema = fields.required("json_schema")?.schema()?.into();
    Ok(Part::Arguments { schema, notation: Arc::new(Style::Qwen.notation()) })
}

/// Refuses the options of `json_schema` that would change the texts.
fn refuse_options(fields: &mut Fields) -> Result<(), RequestError> {
    let refused = |at: &Place, accepted, hint| Err(at.error(Problem::NotNeutral { accepted, hint }));
    let order = fields.take("any_order");
    if let Some(at) = order.filter(|at| at.value().as_bool() != Some(false)) {
        return refused(&at, "false", "members have the order of the schema");
    }
    if let Some(at) = fields.take("max_whitespace_cnt") {
        return refused(&at, "null", "the layout of JSON is that of all schemas");
    }
    let excludes = fields.take("excludes");
    if let Some(at) = excludes.filter(|at| at.value().as_array().is_none_or(|texts| !texts.is_empty())) {
        return refused(&at, "an empty array", "");
    }
    Ok(())
}

/// Texts of a notation with the members of one level.
struct Texts {
    name_open: &'static str,
    /// Texts after a name and before a value.
    before: [&'static str; 2],
    /// Texts between the texts in `before`.
    between: Between,
    after: &'static str,
    /// A character that names cannot contain.
    reserved: &'static str,
}

/// Texts between a name and a value.
#[derive(Clone, Copy)]
enum Between {
    Nothing,
    LineBreak,
    /// A word for the type of the value, in the order of [`ValueType::ALL`].
    Words([&'static str; 6]),
}

impl Style {
    fn notation(self) -> Notation {
        let is_text = ["false", "false", "false", "true", "false", "false"];
        let types = ["null", "boolean", "number", "string", "array", "object"];
        let texts = match self {
            Self::MinimaxM3 => return nested(),
            Self::Qwen => Texts {
                name_open: "<parameter=",
                before: [">", ""],
                between: Between::Nothing,
                after: "</parameter>",
                reserved: ">",
            },
            Self::Minimax => Texts {
                name_open: "<parameter name=\"",
                before: ["\">", ""],
                between: Between::Nothing,
                after: "</parameter>",
                reserved: "\"",
            },
            Self::Deepseek => Texts {
                name_open: "<｜DSML｜parameter name=\"",
                before: ["\" string=\"", "\">"],
                between: Between::Words(is_text),
                after: "</｜DSML｜parameter>",
                reserved: "\"",
            },
            Self::DeepseekV41 => Texts {
                name_open: "<｜DSML｜ parameter name=\"",
                before: ["\" string=\"", "\">"],
                between: Between::Words(is_text),
                after: "</｜DSML｜ parameter>",
                reserved: "\"",
            },
            Self::Glm => Texts {
                name_open: "<arg_key>",
                before: ["</arg_key>", "<arg_value>"],
                between: Between::LineBreak,
                after: "</arg_value>",
                reserved: "<",
            },
            Self::KimiK3 => Texts {
                name_open: "<|open|>argument key=\"",
                before: ["\" type=\"", "\"<|sep|>"],
                between: Between::Words(types),
                after: "<|close|>argument<|sep|>",
                reserved: "\"",
            },
        };
        texts.notation()
    }
}

impl Texts {
    fn notation(self) -> Notation {
        let [open, close] = self.before;
        let around = |kind: ValueType| {
            let between = match self.between {
                Between::Nothing => Part::literal(""),
                Between::LineBreak => line_break(),
                Between::Words(words) => Part::literal(words[kind as usize]),
            };
            let before = Part::sequence([Part::literal(open), between, Part::literal(close)]);
            let after = Part::literal(self.after);
            // White space around a string would belong to the string.
            match kind {
                ValueType::String => Around { before, after },
                _ => Around {
                    before: Part::sequence([before, line_break()]),
                    after: Part::sequence([line_break(), after]),
                },
            }
        };
        Notation {
            object: lines(),
            array: lines(),
            name_open: Part::literal(self.name_open),
            name_close: None,
            item_name: None,
            names: Names::Without(self.reserved.to_owned()),
            around: ValueType::ALL.map(around),
            strings: Strings::Raw { avoid: vec![self.after.to_owned()], nested_open: None, section: None },
            literals: Literals::json(),
            nested: Nested::Json,
        }
    }
}

/// Returns the notation of [`Style::MinimaxM3`].
fn nested() -> Notation {
    let around = Around { before: Part::literal(">"), after: Part::literal("]<]minimax[>[</") };
    let inside = Notation {
        object: lines(),
        array: lines(),
        name_open: Part::literal("]<]minimax[>[<"),
        name_close: Some(Part::literal(">")),
        item_name: Some("item".to_owned()),
        names: Names::Tags,
        around: std::array::from_fn(|_| around.clone()),
        strings: Strings::Raw {
            avoid: vec!["]<]minimax[>[".to_owned()],
            nested_open: Some("]<]minimax[>[<".to_owned()),
            section: None,
        },
        literals: Literals::json(),
        nested: Nested::Same,
    };
    Notation { nested: Nested::Other(Box::new(inside.clone())), ..inside }
}

/// Returns the brackets of members between which a line break may stand.
fn lines() -> Brackets {
    Brackets { open: line_break(), separator: line_break(), close: line_break(), empty: line_break() }
}

/// Returns an optional line break.
fn line_break() -> Part {
    Part::OneOf(vec![Part::literal(""), Part::literal("\n")])
}
