use super::super::shapes::ToolCall;

/// Removes a namespace before the tool name, as in `functions.get_weather` or
/// `default_api:get_weather`.
///
/// Some models see their tools in such a namespace. Tool names contain neither dots nor colons, so
/// the namespace ends at the last dot or colon.
pub(super) fn without_namespace(call: &mut ToolCall) {
    if let Some((_, name)) = call.name.rsplit_once(['.', ':']).filter(|(_, name)| !name.is_empty()) {
        call.name = name.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_namespaces() {
        for (given, expected) in
            [("functions.f", "f"), ("default_api:f", "f"), ("a.b.f", "f"), ("f", "f"), ("f.", "f.")]
        {
            let mut call = ToolCall { id: String::new(), name: given.to_owned(), arguments: String::new() };
            without_namespace(&mut call);
            assert_eq!(call.name, expected);
        }
    }
}
