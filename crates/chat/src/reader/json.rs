/// Incremental search for the end of a JSON object.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ObjectEnd {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl ObjectEnd {
    /// Searches more text, and returns the offset after the object's last brace if found.
    pub(super) fn find(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            if self.in_string {
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_across_pieces() {
        let text = r#"{"a": "}\"]\\", "b": [{}, 1]}}"#;
        for cut in 0..text.len() - 1 {
            let mut end = ObjectEnd::default();
            let first = end.find(&text[..cut]);
            assert_eq!(first, None);
            assert_eq!(end.find(&text[cut..]), Some(text.len() - 1 - cut), "{cut}");
        }
    }
}
