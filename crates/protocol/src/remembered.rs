//! Messages about what an earlier process found out.

/// Returns the end of a message that rests on what is remembered at `place`, or an empty text.
pub(crate) fn hint(place: Option<&str>) -> String {
    place.map_or_else(String::new, |place| {
        format!(
            "; this is remembered in {place} for a day: delete the file to ask the server again, or declare \
             `capabilities` of the provider"
        )
    })
}
