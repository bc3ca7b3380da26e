//! Tables for people: on a terminal no wider than it is, elsewhere as wide as their cells.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, presets};
use console::{Term, measure_text_width};

/// Blanks between two columns.
const GAP: usize = 2;
/// The least that is left of a column whose cells are cut.
const LEAST: usize = 12;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    heading: &'static str,
    cut: bool,
    right: bool,
    /// Above 0 for a column that a narrow terminal does without; the highest goes first.
    rank: u8,
}

impl Column {
    /// A column whose cells are always whole.
    #[must_use]
    pub const fn new(heading: &'static str) -> Self {
        Self { heading, cut: false, right: false, rank: 0 }
    }

    /// Lets a narrow terminal cut its cells.
    #[must_use]
    pub const fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// Aligns its cells to the right, as numbers are.
    #[must_use]
    pub const fn right(self) -> Self {
        Self { right: true, ..self }
    }

    /// Lets a narrow terminal leave it out, before the columns of a lower rank.
    #[must_use]
    pub const fn optional(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// How many columns the terminal on standard output has; none where there is no terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    Term::stdout().size_checked().map(|(_, columns)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Lays rows out below their headings, for whatever standard output is.
#[must_use]
pub fn table<const N: usize>(columns: [Column; N], rows: impl Iterator<Item = [String; N]>) -> String {
    lay_out(columns, &rows.collect::<Vec<_>>(), terminal_width())
}

fn lay_out<const N: usize>(columns: [Column; N], rows: &[[String; N]], width: Option<usize>) -> String {
    let widths: [usize; N] = std::array::from_fn(|index| {
        let cells = rows.iter().map(|row| measure_text_width(&row[index]));
        cells.chain([columns[index].heading.len()]).max().unwrap_or_default()
    });
    let shown = shown(columns, widths, width);
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_truncation_indicator("…");
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.try_into().unwrap_or(u16::MAX));
    }
    table.set_header(shown.iter().map(|index| columns[*index].heading));
    for row in rows {
        let mut line = Row::from(shown.iter().map(|index| row[*index].as_str()).collect::<Vec<_>>());
        line.max_height(1);
        table.add_row(line);
    }
    let last = shown.len().saturating_sub(1);
    for (place, (index, column)) in shown.iter().zip(table.column_iter_mut()).enumerate() {
        column.set_padding((0, if place == last { 0 } else { GAP as u16 }));
        if columns[*index].right {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if !columns[*index].cut {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

/// The columns that fit, by their places.
fn shown<const N: usize>(columns: [Column; N], widths: [usize; N], width: Option<usize>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..N).collect();
    let Some(width) = width else { return shown };
    let least = |index: &usize| if columns[*index].cut { widths[*index].min(LEAST) } else { widths[*index] };
    while shown.iter().map(|index| least(index) + GAP).sum::<usize>() > width + GAP {
        let Some(first) =
            shown.iter().copied().filter(|index| columns[*index].rank > 0).max_by_key(|index| columns[*index].rank)
        else {
            break;
        };
        shown.retain(|index| *index != first);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::new("ID"),
        Column::new("TOOK").right().optional(1),
        Column::new("KEY").optional(2),
        Column::new("WHAT").cut(),
    ];

    fn rows() -> Vec<[String; 4]> {
        let row = |took: &str, what: &str| {
            ["tsk_01KAJ6H2TT".to_owned(), took.to_owned(), "0123456789ab".to_owned(), what.to_owned()]
        };
        vec![row("5.04 s", "Log in to the shop and look for tea"), row("12.10 s", "Grüße, 世界")]
    }

    #[test]
    fn cells_are_whole_where_there_is_no_terminal() {
        let text = lay_out(COLUMNS, &rows(), None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ID                 TOOK  KEY           WHAT", "{text}");
        assert_eq!(lines[1], "tsk_01KAJ6H2TT   5.04 s  0123456789ab  Log in to the shop and look for tea", "{text}");
        assert_eq!(lines.len(), 3, "{text}");
    }

    #[test]
    fn a_table_is_no_wider_than_its_terminal() {
        for width in [30, 40, 52, 60, 80, 200] {
            let text = lay_out(COLUMNS, &rows(), Some(width));
            assert_eq!(text.lines().count(), 3, "{width}:\n{text}");
            assert!(text.lines().all(|line| measure_text_width(line) <= width), "{width}:\n{text}");
            assert!(text.contains("tsk_01KAJ6H2TT"), "{width}:\n{text}");
            assert_eq!(text.contains("KEY"), width >= 52, "{width}:\n{text}");
            assert_eq!(text.contains('…'), width < 80, "{width}:\n{text}");
        }
    }
}
