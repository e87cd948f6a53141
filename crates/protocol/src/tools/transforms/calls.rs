use super::super::shapes::ToolCall;

/// Some models know their tools within a namespace and call them by it: `functions.get_weather`, `default_api:get_weather`. Names
/// of tools have neither dots nor colons, so what is before the last of them is that.
pub(super) fn without_namespace(call: &mut ToolCall) {
    if let Some((_, name)) = call.name.rsplit_once(['.', ':']).filter(|(_, name)| !name.is_empty()) {
        call.name = name.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_go() {
        for (given, expected) in
            [("functions.f", "f"), ("default_api:f", "f"), ("a.b.f", "f"), ("f", "f"), ("f.", "f.")]
        {
            let mut call = ToolCall { id: String::new(), name: given.to_owned(), arguments: String::new() };
            without_namespace(&mut call);
            assert_eq!(call.name, expected);
        }
    }
}
