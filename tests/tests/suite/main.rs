//! Suites that span crates.

mod architecture;
mod budgets;
mod chat_formats;
mod decisions;
mod directives;
mod documents;
mod fast_masks;
mod fields;
mod finite_schemas;
mod grammars;
mod hostile;
mod json_schema;
mod likelihood;
mod masks;
mod matcher;
mod named_formats;
mod notation_masks;
mod packages;
mod parts;
mod real_conversations;
mod real_models;
mod remote_calls;
mod standard_budgets;
mod structural_tags;
mod syntax;
mod terminals;
