//! What the history of a cutout says of where it comes from. It never has a character that a header cannot have.

use crate::PixelBox;

/// Where a cutout comes from, for its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The file's path.
    pub path: String,
    /// What identifies the file's content, such as its digest; empty if nothing does.
    pub content: String,
    /// What was asked for.
    pub selection: String,
}

impl Provenance {
    /// Lines of history. Characters that a header cannot have become `?`.
    pub(crate) fn lines(&self, hdu: usize, part: &PixelBox) -> Vec<String> {
        let mut lines =
            vec![format!("Cut by sector images {} from {}[{hdu}]{part}", env!("CARGO_PKG_VERSION"), self.path)];
        if !self.selection.is_empty() {
            lines.push(format!("Asked for {}", self.selection));
        }
        if !self.content.is_empty() {
            lines.push(format!("Content of the file: {}", self.content));
        }
        let is_allowed = |c: char| c == ' ' || c.is_ascii_graphic();
        lines.iter().map(|line| line.chars().map(|c| if is_allowed(c) { c } else { '?' }).collect()).collect()
    }
}
