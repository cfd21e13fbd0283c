//! Reads round trips between named sites from a table in a text file ([`RttMatrix`]). It is pure code and never opens
//! the file itself.

use std::time::Duration;

use crate::error::TestbedError;

/// A checked table:
///
/// ```text
/// # milliseconds, there and back
///             chicago  baltimore  san-diego  amsterdam
/// chicago     0        20         56         98
/// baltimore   20       0          66         86
/// san-diego   56       66         0          146
/// amsterdam   98       86         146        0
/// ```
///
/// Empty lines and lines that begin with `#` are ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct RttMatrix {
    sites: Vec<String>,
    /// Row by row.
    rtts: Vec<Duration>,
}

impl RttMatrix {
    /// Reads a table; an error names the line.
    pub fn parse(text: &str) -> Result<Self, TestbedError> {
        let lines =
            (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with('#'));
        let mut lines = lines.map(|(number, line)| (number, line.split_whitespace().collect::<Vec<_>>()));
        let (_, head) = lines.next().ok_or_else(|| wrong(1, "the table is empty; name the sites in its first line"))?;
        let sites: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
        let mut rtts = Vec::new();
        for row in 0..sites.len() {
            let (number, words) =
                lines.next().ok_or_else(|| wrong(row, &format!("the row of `{}` is missing", sites[row])))?;
            rtts.extend(read_row(number, &words, row, &sites)?);
        }
        if let Some((number, _)) = lines.next() {
            return Err(wrong(number, "there are more rows than sites"));
        }
        let matrix = Self { sites, rtts };
        matrix.check()?;
        Ok(matrix)
    }

    /// The names of the sites, in their order.
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// The round trip between two sites, by their indexes in [`sites`](Self::sites).
    pub fn rtt(&self, one: usize, other: usize) -> Duration {
        self.rtts[one * self.sites.len() + other]
    }

    fn check(&self) -> Result<(), TestbedError> {
        for (one, name) in self.sites.iter().enumerate() {
            let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name.len() <= SITE_NAME_BYTES_MAX
                && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '-');
            if !is_name {
                return Err(wrong(1, &format!("`{name}` is no site's name; take letters, digits and `-`")));
            }
            if self.sites[..one].contains(name) {
                return Err(wrong(1, &format!("the site `{name}` stands there twice")));
            }
            if !self.rtt(one, one).is_zero() {
                return Err(wrong(1, &format!("`{name}` is at 0 ms from itself; write 0 there")));
            }
            if let Some(other) = (0..one).find(|other| self.rtt(one, *other) != self.rtt(*other, one)) {
                let other = &self.sites[other];
                return Err(wrong(1, &format!("`{name}` and `{other}` are not as far from each other both ways")));
            }
        }
        Ok(())
    }
}

fn read_row(number: usize, words: &[&str], row: usize, sites: &[String]) -> Result<Vec<Duration>, TestbedError> {
    let Some((name, cells)) = words.split_first() else { return Err(wrong(number, "the row is empty")) };
    if *name != sites[row] {
        return Err(wrong(number, &format!("this row is that of `{}`, not of `{name}`", sites[row])));
    }
    if cells.len() != sites.len() {
        return Err(wrong(number, &format!("the row has {} numbers and there are {} sites", cells.len(), sites.len())));
    }
    let read = |cell: &&str| {
        let millis = cell.parse::<f64>().ok().filter(|millis| (0.0..=RTT_MILLIS_MAX).contains(millis));
        let millis = millis.ok_or_else(|| wrong(number, &format!("`{cell}` is no number of milliseconds")))?;
        Ok(Duration::from_micros((millis * 1e3).round() as u64))
    };
    cells.iter().map(read).collect()
}

fn wrong(line: usize, what: &str) -> TestbedError {
    TestbedError::Plan(format!("the table of round trips, line {line}: {what}"))
}

/// A site's name becomes part of the names of nodes and files.
const SITE_NAME_BYTES_MAX: usize = 32;
const RTT_MILLIS_MAX: f64 = 60_000.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let head = include_str!("matrix.rs").split("```").nth(1).unwrap();
        let text: String = head.lines().skip(1).map(|line| format!("{}\n", line.trim_start_matches("///"))).collect();
        let matrix = RttMatrix::parse(&text).unwrap();
        assert_eq!(matrix.sites(), ["chicago", "baltimore", "san-diego", "amsterdam"]);
        assert_eq!(matrix.rtt(1, 3), Duration::from_millis(86));
        assert_eq!(matrix.rtt(3, 2), matrix.rtt(2, 3));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let cases = [
            ("", "empty"),
            ("a b\na 0 1\n", "`b` is missing"),
            ("a b\na 0 1\nb 2 0\n", "both ways"),
            ("a b\na 0 1\nb 1\n", "has 1 numbers"),
            ("a b\nb 0 1\na 1 0\n", "that of `a`"),
            ("a b\na 0 far\nb 1 0\n", "line 2: `far`"),
            ("a b\na 0 -1\nb -1 0\n", "`-1`"),
            ("a b\na 1 1\nb 1 0\n", "from itself"),
            ("a a\na 0 1\na 1 0\n", "twice"),
            ("a /b\na 0 1\n/b 1 0\n", "no site's name"),
            ("a b\na 0 1\nb 1 0\nc 1 1\n", "more rows"),
        ];
        for (text, part) in cases {
            let said = RttMatrix::parse(text).unwrap_err().to_string();
            assert!(said.contains(part), "{text:?}: {said}");
        }
    }
}
