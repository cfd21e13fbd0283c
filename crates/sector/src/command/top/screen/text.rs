//! Text that fits a screen: one line, safe to show, and no wider than its place. It never draws.

use ratatui::{symbols::block::NINE_LEVELS, text::Span};
use terminal::sanitize;

/// A text as one line that cannot send commands to a terminal. Others wrote some of what is shown.
pub(super) fn one_line(text: &str) -> String {
    sanitize(text).replace(['\n', '\t'], " ")
}

/// A text as one line in so many columns; `…` says that it goes on.
pub(super) fn cut(text: &str, columns: usize) -> String {
    let text = one_line(text);
    if width(&text) <= columns {
        return text;
    }
    let mut short = String::new();
    for character in text.chars() {
        short.push(character);
        if width(&short) + 1 > columns {
            short.pop();
            break;
        }
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// A text in one line, or in two where one is too short; it is parted between words.
pub(super) fn in_two(text: &str, columns: usize) -> Vec<String> {
    let text = one_line(text);
    if width(&text) <= columns {
        return vec![text];
    }
    let blanks = text.match_indices(' ').map(|(at, _)| at).take_while(|at| width(&text[..*at]) <= columns);
    match blanks.last() {
        None => vec![cut(&text, columns)],
        Some(at) => vec![text[..at].to_owned(), cut(&text[at + 1..], columns)],
    }
}

/// The columns that a text takes on a screen.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A share of a thousand as a bar of so many columns. What is more than nothing is seen.
pub(super) fn bar(thousandths: u64, columns: usize) -> String {
    let steps = columns as u64 * STEPS_A_COLUMN;
    let filled = (thousandths.min(1_000) * steps).div_ceil(1_000);
    let (whole, rest) = (filled / STEPS_A_COLUMN, filled % STEPS_A_COLUMN);
    let mut bar = NINE_LEVELS.full.repeat(whole as usize);
    bar.push_str(match rest {
        0 => "",
        1 => NINE_LEVELS.one_eighth,
        2 => NINE_LEVELS.one_quarter,
        3 => NINE_LEVELS.three_eighths,
        4 => NINE_LEVELS.half,
        5 => NINE_LEVELS.five_eighths,
        6 => NINE_LEVELS.three_quarters,
        _ => NINE_LEVELS.seven_eighths,
    });
    bar
}

/// Blocks grow by eighths of a column.
const STEPS_A_COLUMN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_place_whatever_it_holds() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(cut("日本語", 5), "日本…", "wide characters take two columns");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("a\n\tb\u{1b}[2Jc\r", 20), "a  b\u{fffd}[2Jc\u{fffd}");
    }

    #[test]
    fn a_sentence_has_two_lines_at_most_and_is_parted_between_words() {
        assert_eq!(in_two("one two", 7), ["one two"]);
        assert_eq!(in_two("one two three", 7), ["one two", "three"]);
        assert_eq!(in_two("one two three four", 7), ["one two", "three …"]);
        assert_eq!(in_two("oneandtwo", 7), ["oneand…"]);
    }

    #[test]
    fn a_bar_grows_by_eighths_and_is_never_too_long() {
        assert_eq!(bar(0, 4), "");
        assert_eq!(bar(1, 4), "▏", "a little is seen");
        assert_eq!(bar(500, 4), "██");
        assert_eq!(bar(625, 1), "▋");
        assert_eq!(bar(1_000, 4), "████");
        assert_eq!(bar(u64::MAX, 4), "████");
    }
}
