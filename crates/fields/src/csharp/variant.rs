//! Variants: an abstract record, a sealed record for each structure, and a converter.
//!
//! A structure that is an object becomes a record with the members of the object. Any other
//! structure becomes a record with the property `Value`.

use std::fmt::Write;

use super::{READ, READER, Writer, literal, names, summary};
use crate::field::{Branch, Kind, Scalar, Variant};

/// Helper of the converters of untagged variants.
pub(super) const UNTAGGED: &str = "\
internal static class UntaggedVariant
{
    public static bool TryRead<T>(
        JsonElement element, JsonSerializerOptions options, [NotNullWhen(true)] out T? value)
    {
        try
        {
            value = element.Deserialize<T>(options);
        }
        catch (JsonException)
        {
            value = default;
            return false;
        }
        return value is not null;
    }
}
";

/// Structure of a variant, as a record.
struct Case<'d> {
    /// Name of the record.
    record: String,
    tag: Option<&'d str>,
    /// Type of the property `Value`. `None` if the record has the members of the structure.
    value: Option<super::TypeName>,
    constant: Option<&'d Scalar>,
}

impl<'d> Writer<'d> {
    pub(super) fn variant(&mut self, variant: &'d Variant, name: &str, hint: Option<&str>) {
        let at = self.reserve();
        let converter = self.types.fresh(&format!("{name}Converter"));
        let mut cases = Vec::with_capacity(variant.variants.len());
        for (index, branch) in variant.variants.iter().enumerate() {
            cases.push(self.case(branch, index, name));
        }
        let (read, write) = if variant.untagged {
            self.has_untagged = true;
            (read_untagged(&cases), write_cases(&cases, |_| String::new()))
        } else {
            let property = |case: &Case<'_>| {
                let tag = literal(case.tag.unwrap_or_default());
                format!("                writer.WritePropertyName({tag});\n")
            };
            let write = format!(
                "        writer.WriteStartObject();\n{}        writer.WriteEndObject();\n",
                write_cases(&cases, property)
            );
            (read_tagged(&cases, name), write)
        };
        self.blocks[at] = format!(
            "{}[JsonConverter(typeof({converter}))]\npublic abstract record {name};\n\n\
             public sealed class {converter} : JsonConverter<{name}>\n{{\n\
             {READ}{name} Read({READER})\n    {{\n{read}    }}\n\n\
             {READ}void Write(Utf8JsonWriter writer, {name} value, JsonSerializerOptions options)\n    {{\n{write}    }}\n}}\n",
            summary(hint, None, "")
        );
    }

    fn case(&mut self, branch: &'d Branch, index: usize, name: &str) -> Case<'d> {
        let tag = branch.name.as_deref();
        let option = format!("Option{}", index + 1);
        let record = self.types.fresh(&names::within(name, tag.unwrap_or(&option)));
        let hint = branch.kind.description();
        let mut case = Case { record, tag, value: None, constant: None };
        match branch.kind.plain() {
            Kind::Composite(composite) => self.record(composite, &case.record, Some(name), hint),
            plain => {
                let at = self.reserve();
                let value = self.value(&branch.kind, &names::within(&case.record, "Value"));
                let summary = summary(hint, Some(&branch.kind), "");
                let record = &case.record;
                self.blocks[at] =
                    format!("{summary}public sealed record {record}({} Value) : {name};\n", value.text);
                case.value = Some(value);
                if let Kind::Constant(constant) = plain {
                    case.constant = Some(constant);
                }
            }
        }
        case
    }
}

/// Returns the statements that read `{"tag": structure}`.
fn read_tagged(cases: &[Case<'_>], name: &str) -> String {
    let mut arms = String::new();
    for Case { record, tag, value, .. } in cases {
        let read = |of: &str| format!("JsonSerializer.Deserialize<{of}>(ref reader, options)");
        let missing = " ?? throw new JsonException(\"expected a value, found null\")";
        let made = match value {
            None => format!("{}{missing}", read(record)),
            Some(value) => {
                let missing = if value.is_value { "" } else { missing };
                format!("new {record}({}{missing})", read(&value.text))
            }
        };
        let _ = writeln!(arms, "            {} => {made},", literal(tag.unwrap_or_default()));
    }
    format!(
        "        if (reader.TokenType != JsonTokenType.StartObject || !reader.Read()\n            \
         || reader.TokenType != JsonTokenType.PropertyName)\n        {{\n            \
         throw new JsonException(\"expected an object with one member\");\n        }}\n        \
         string? tag = reader.GetString();\n        reader.Read();\n        \
         {name} value = tag switch\n        {{\n{arms}            \
         _ => throw new JsonException(\"unknown structure \" + tag),\n        }};\n        \
         if (!reader.Read() || reader.TokenType != JsonTokenType.EndObject)\n        {{\n            \
         throw new JsonException(\"expected an object with one member\");\n        }}\n        \
         return value;\n"
    )
}

/// Returns the statements that read the first structure that fits.
fn read_untagged(cases: &[Case<'_>]) -> String {
    let mut text = "        JsonElement element = JsonElement.ParseValue(ref reader);\n".to_owned();
    for (index, Case { record, value, constant, .. }) in cases.iter().enumerate() {
        let option = format!("option{}", index + 1);
        let of = value.as_ref().map_or(record.as_str(), |value| &value.text);
        let nullable = if value.as_ref().is_some_and(|value| value.is_value) { "" } else { "?" };
        let made = if value.is_some() { format!("new {record}({option})") } else { option.clone() };
        let is_constant = constant.map(is_equal).unwrap_or_default();
        let _ = writeln!(
            text,
            "        if ({is_constant}UntaggedVariant.TryRead<{of}>(element, options, out {of}{nullable} {option}))\n        \
             {{\n            return {made};\n        }}"
        );
    }
    text.push_str("        throw new JsonException(\"no structure of the variant matches\");\n");
    text
}

/// Returns the condition that `element` is a constant, followed by `&&`.
fn is_equal(constant: &Scalar) -> String {
    match constant {
        Scalar::Boolean(true) => "element.ValueKind == JsonValueKind.True && ".to_owned(),
        Scalar::Boolean(false) => "element.ValueKind == JsonValueKind.False && ".to_owned(),
        Scalar::String(text) => {
            format!("element.ValueKind == JsonValueKind.String && element.ValueEquals({}) && ", literal(text))
        }
        Scalar::Integer(_) | Scalar::Number(_) => {
            format!(
                "element.ValueKind == JsonValueKind.Number && element.GetDouble() == {}d && ",
                constant.text()
            )
        }
    }
}

/// Returns the statement that writes a structure. `before` returns the lines before its value.
fn write_cases(cases: &[Case<'_>], before: impl Fn(&Case<'_>) -> String) -> String {
    let mut text = "        switch (value)\n        {\n".to_owned();
    for (index, case) in cases.iter().enumerate() {
        let option = format!("option{}", index + 1);
        let written = if case.value.is_some() { format!("{option}.Value") } else { option.clone() };
        let _ = writeln!(
            text,
            "            case {} {option}:\n{}                \
             JsonSerializer.Serialize(writer, {written}, options);\n                break;",
            case.record,
            before(case)
        );
    }
    text.push_str(
        "            default:\n                throw new JsonException(\"unknown structure\");\n        }\n",
    );
    text
}
