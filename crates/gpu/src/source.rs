//! Expansion of WGSL templates.

/// Repeats lines for all values of variables.
///
/// A line that begins with a tag, `#` and letters such as `#rt`, is repeated for all combinations of
/// the letters' variables: `r` stands for the variable `$r`, which counts from 0 to the number given
/// with the letter. The lines between `#begin r` and `#end` are repeated together. Blocks do not
/// nest, but may contain tagged lines.
pub(crate) fn unroll(source: &str, variables: &[(char, u32)]) -> String {
    let mut text = String::new();
    let mut lines = source.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        if let Some(letter) = line.strip_prefix("#begin ") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "#end").collect();
            let block = block.join("\n");
            for value in 0..count(variables, letter) {
                text += &unroll(&block.replace(&format!("${letter}"), &value.to_string()), variables);
            }
            continue;
        }
        let tagged = line.strip_prefix('#').and_then(|line| line.split_once(' '));
        let (tag, line) = tagged.unwrap_or(("", line));
        let mut repeated = vec![line.to_owned()];
        for letter in tag.split("").filter(|letter| !letter.is_empty()) {
            let values = || 0..count(variables, letter);
            let repeat = |line: &String| -> Vec<String> {
                values().map(|value| line.replace(&format!("${letter}"), &value.to_string())).collect()
            };
            repeated = repeated.iter().flat_map(repeat).collect();
        }
        for line in repeated {
            text += &line;
            text.push('\n');
        }
    }
    text
}

fn count(variables: &[(char, u32)], letter: &str) -> u32 {
    let known = variables.iter().find(|(known, _)| letter.chars().eq([*known]));
    known.map_or(1, |(_, count)| *count)
}

/// Replaces names in capital letters by values. Longer names must come before their prefixes.
pub(crate) fn fill(source: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(source.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Writes a float as WGSL.
pub(crate) fn float(value: f32) -> String {
    format!("bitcast<f32>({}u)", value.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tagged_lines_are_repeated() {
        let text = unroll("a\n#r b$r\n  #rt c$r$t", &[('r', 2), ('t', 2)]);
        assert_eq!(text, "a\nb0\nb1\nc00\nc01\nc10\nc11\n");
        let text = unroll("#begin r\nb$r\n#t c$r$t\n#end\nd", &[('r', 2), ('t', 2)]);
        assert_eq!(text, "b0\nc00\nc01\nb1\nc10\nc11\nd\n");
    }
}
