//! C# types of values that need no declaration.

use super::TypeName;
use crate::field::{Choice, Int, Kind, Scalar};

/// Returns the type of a value without parts. Returns `None` for other kinds, and for choices that
/// become an enum.
pub(super) fn scalar(kind: &Kind) -> Option<TypeName> {
    Some(match kind {
        Kind::Int(Int { min, max }) => whole([min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX)]),
        Kind::Float(_) => TypeName::value("double"),
        Kind::String(_) | Kind::Template(_) => TypeName::class("string"),
        Kind::Boolean => TypeName::value("bool"),
        Kind::Constant(value) => of_all(std::slice::from_ref(value)),
        Kind::Choice(choice) if strings(choice).is_none() => of_all(&choice.options),
        _ => return None,
    })
}

/// Returns the options of a choice if all of them are strings.
pub(super) fn strings(choice: &Choice) -> Option<Vec<&str>> {
    let strings = choice.options.iter().map(|option| match option {
        Scalar::String(text) => Some(text.as_str()),
        _ => None,
    });
    strings.collect()
}

fn of_all(values: &[Scalar]) -> TypeName {
    let integers: Option<Vec<i64>> = values
        .iter()
        .map(|value| match value {
            Scalar::Integer(value) => Some(*value),
            _ => None,
        })
        .collect();
    let is_number = |value: &Scalar| matches!(value, Scalar::Integer(_) | Scalar::Number(_));
    if let Some(integers) = integers {
        whole(integers)
    } else if values.iter().all(is_number) {
        TypeName::value("double")
    } else if values.iter().all(|value| matches!(value, Scalar::Boolean(_))) {
        TypeName::value("bool")
    } else if values.iter().all(|value| matches!(value, Scalar::String(_))) {
        TypeName::class("string")
    } else {
        TypeName::value("JsonElement")
    }
}

fn whole(values: impl IntoIterator<Item = i64>) -> TypeName {
    let is_short = values.into_iter().all(|value| i32::try_from(value).is_ok());
    TypeName::value(if is_short { "int" } else { "long" })
}
