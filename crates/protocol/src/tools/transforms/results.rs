use serde_json::Value;

/// Removes empty `errors` and `warnings` and null fields from an envelope, to save tokens. A
/// success becomes `{"ok":true,"data":…}`.
pub(super) fn compact(envelope: &mut Value) {
    if let Some(fields) = envelope.as_object_mut() {
        fields.retain(|name, value| match name.as_str() {
            "errors" | "warnings" => value.as_array().is_none_or(|problems| !problems.is_empty()),
            _ => !value.is_null(),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn removes_empty_fields() {
        for (given, expected) in [
            (
                json!({ "ok": true, "data": 0, "errors": [], "warnings": [] }),
                json!({ "ok": true, "data": 0 }),
            ),
            (json!({ "ok": true, "data": [], "errors": [] }), json!({ "ok": true, "data": [] })),
            (
                json!({ "ok": false, "data": null, "errors": [{}], "warnings": [] }),
                json!({ "ok": false, "errors": [{}] }),
            ),
        ] {
            let mut envelope = given;
            compact(&mut envelope);
            assert_eq!(envelope, expected);
        }
    }
}
