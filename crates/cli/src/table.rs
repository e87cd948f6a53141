//! Tables of text.

use std::fmt::Write;

/// Returns rows with aligned columns. The last column has no padding.
pub(crate) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..COLUMNS.saturating_sub(1)).map(width).collect();
    let mut table = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(table, "{cell:width$}  ");
        }
        if let Some(last) = row.last() {
            table.push_str(last);
        }
        table.push('\n');
    }
    table
}
