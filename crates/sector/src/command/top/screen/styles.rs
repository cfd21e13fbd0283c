//! How things look. Words always say the same: without colours nothing is lost. It never draws.

use ratatui::style::{Color, Modifier, Style};

use super::super::model::Look;

/// What is as it should be.
pub(super) fn plain() -> Style {
    Style::new()
}

/// What stands out.
pub(super) fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// What needs a person.
pub(super) fn trouble(look: Look) -> Style {
    if look.has_colour { Style::new().fg(Color::Red) } else { strong() }
}

/// What was so, and may not be any more.
pub(super) fn stale(look: Look) -> Style {
    let style = Style::new().remove_modifier(Modifier::BOLD).add_modifier(Modifier::DIM);
    if look.has_colour { style.fg(Color::DarkGray) } else { style }
}
