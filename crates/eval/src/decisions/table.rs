//! Plain text that is also Markdown, with at most 110 columns.

use super::metrics::Estimate;

/// Maximum number of columns.
pub(super) const COLUMNS: usize = 110;

/// Minimum width of the first column, which is shortened if a table is too wide.
const MIN_FIRST: usize = 8;

/// Formats a number with three decimals, or in scientific notation if it is very small. Returns `-` for a
/// number that is missing or not finite.
pub(super) fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if !value.is_finite() => "-".to_owned(),
        Some(value) if value > 0.0 && value < 0.0005 => format!("{value:.0e}"),
        Some(value) => format!("{value:.3}"),
        None => "-".to_owned(),
    }
}

/// Formats a value and its interval.
pub(super) fn estimate(estimate: Option<Estimate>) -> String {
    let Some(Estimate { value, interval }) = estimate else { return "-".to_owned() };
    match interval {
        Some((low, high)) if value.is_finite() && low.is_finite() && high.is_finite() => {
            format!("{value:.3} ({low:.3}–{high:.3})")
        }
        _ => number(Some(value)),
    }
}

/// Formats a table. The first `texts` columns are aligned to the left, and the others to the right.
pub(super) fn table(header: &[&str], texts: usize, rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let mut lines: Vec<Vec<String>> = vec![header];
    lines.extend(rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()));
    let length = |cell: &String| cell.chars().count();
    let widest = |column: usize| lines.iter().filter_map(|row| row.get(column)).map(length).max();
    let mut widths: Vec<usize> =
        (0..lines[0].len()).map(|column| widest(column).unwrap_or_default().max(3)).collect();
    let excess = (widths.iter().sum::<usize>() + 3 * widths.len() + 1).saturating_sub(COLUMNS);
    if let Some(first) = widths.first_mut() {
        *first = first.saturating_sub(excess).max(MIN_FIRST.min(*first));
    }
    let rule = widths.iter().enumerate().map(|(column, &width)| {
        if column < texts { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
    });
    let rule: Vec<String> = rule.collect();
    let mut text = String::new();
    for (index, row) in lines.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            let cell = shortened(cell, width);
            if column < texts { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        push_row(&mut text, &cells.collect::<Vec<_>>());
        if index == 0 {
            push_row(&mut text, &rule);
        }
    }
    text
}

fn push_row(text: &mut String, cells: &[String]) {
    text.push_str("| ");
    text.push_str(&cells.join(" | "));
    text.push_str(" |\n");
}

/// Replaces characters that would break a row.
fn plain(cell: &str) -> String {
    let replaced = |c: char| match c {
        '|' => '/',
        c if c.is_control() => ' ',
        c => c,
    };
    cell.chars().map(replaced).collect()
}

fn shortened(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks a text into lines of at most [`COLUMNS`] columns, with a line feed after each.
pub(super) fn wrapped(text: &str) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            lines.push('\n');
            column = 0;
        }
        if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_never_printed() {
        assert_eq!(number(Some(0.12345)), "0.123");
        assert_eq!(number(Some(0.0)), "0.000");
        assert_eq!(number(Some(4.2e-5)), "4e-5");
        for value in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(number(value), "-");
        }
        let with = |value, interval| estimate(Some(Estimate { value, interval }));
        assert_eq!(with(0.5, Some((0.25, 0.75))), "0.500 (0.250–0.750)");
        assert_eq!(with(0.5, None), "0.500");
        assert_eq!(with(0.5, Some((f64::NAN, 1.0))), "0.500");
        assert_eq!(with(f64::NAN, None), "-");
        assert_eq!(estimate(None), "-");
    }

    #[test]
    fn tables_are_aligned() {
        let rows = [vec!["a|b\n".to_owned(), "1".to_owned()], vec!["c".to_owned(), "2000".to_owned()]];
        let expected = "| name |    n |\n| ---- | ---: |\n| a/b  |    1 |\n| c    | 2000 |\n";
        assert_eq!(table(&["name", "n"], 1, &rows), expected);
    }

    #[test]
    fn wide_tables_shorten_the_first_column() {
        let rows = [vec!["é".repeat(200), "x".repeat(80)]];
        let text = table(&["name", "n"], 1, &rows);
        assert!(text.lines().all(|line| line.chars().count() == COLUMNS), "{text}");
        assert!(text.contains("é… |"));
    }

    #[test]
    fn texts_are_wrapped_between_words() {
        let text = "word ".repeat(50);
        let lines: Vec<_> = wrapped(&text).lines().map(str::len).collect();
        assert_eq!(lines, [109, 109, 29]);
        assert_eq!(wrapped("a  b"), "a b\n");
    }
}
