//! What a comparison has found, as a page of `docs/performance/`. It has machine, load, versions, medians with least and
//! most, and ratios pair by pair. It says who is missing and why, and what each peer does not do.

use std::{fmt::Write, fs, path::Path};

use crate::{
    compare::plot,
    figures::{ratios, spread},
};

/// One comparison.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Its name on the command line.
    pub(crate) what: &'static str,
    pub(crate) title: &'static str,
    /// What is measured, and how.
    pub(crate) paragraphs: Vec<String>,
    pub(crate) conditions: Conditions,
    pub(crate) tables: Vec<Table>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) missing: Vec<Missing>,
}

/// When and where it was measured.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) date: String,
    pub(crate) machine: String,
    /// Programs that wanted a processor in the minute before the first turn, and before the last one ended.
    pub(crate) load: (String, String),
    /// What repeats it.
    pub(crate) command: String,
    pub(crate) rounds: usize,
}

/// The systems' values at one piece of work, ours first.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) rows: Vec<Row>,
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    /// Seconds for this amount, in the unit whose rate is shown too.
    Seconds(f64, &'static str),
    /// Microseconds.
    Micros,
    /// A rate: more is better.
    Rate(&'static str),
}

/// A system's values, one for each round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<f64>,
}

/// A system with its version, what it did here, and what it does not do.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) note: &'static str,
}

/// A system that was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Report {
    /// Writes the page and its picture into `folder`, as `compare-WHAT.md` and `compare-WHAT.svg`.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (ending, text) in [("md", self.page()), ("svg", plot::svg(&self.tables))] {
            let path = folder.join(format!("compare-{}.{ending}", self.what));
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            println!("wrote {}", path.display());
        }
        Ok(())
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let Conditions { date, machine, load, command, rounds } = &self.conditions;
        let mut page = format!(
            "# {}\n\n`{command}` wrote this page on {date}.\n[How to read and repeat it](../performance.md#beside-other-systems).\n\n",
            self.title
        );
        for paragraph in &self.paragraphs {
            let _ = writeln!(page, "{paragraph}\n");
        }
        let _ = writeln!(
            page,
            "Machine: {machine}. The load was {} before the first turn and {} at the end.\nRounds: {rounds}, in turns; medians with least and most.\n",
            load.0, load.1
        );
        if load.0.parse::<f64>().is_ok_and(|load| load >= BUSY) {
            let _ = writeln!(page, "{BUSY_NOTE}\n");
        }
        let _ = writeln!(page, "![The figures below as a plot](compare-{}.svg)\n", self.what);
        for table in &self.tables {
            page.push_str(&table.lines());
        }
        page.push_str("## What each one did\n\n");
        for Peer { name, version, note } in &self.peers {
            let _ = writeln!(page, "- **{name}**, {version}. {note}");
        }
        if !self.missing.is_empty() {
            page.push_str("\n## Not measured\n\n");
            for Missing { name, reason } in &self.missing {
                let _ = writeln!(page, "- **{name}**: `{}`", one_line(reason));
            }
        }
        page
    }
}

impl Missing {
    /// The same for one piece of work.
    pub(crate) fn at(self, title: &str) -> Self {
        Self { name: format!("{} ({title})", self.name), ..self }
    }
}

impl Table {
    fn lines(&self) -> String {
        let mut lines = format!("## {}\n\n", self.title);
        let heads = match self.unit {
            Unit::Seconds(_, rate) => format!("seconds | {rate}"),
            Unit::Micros => "microseconds".into(),
            Unit::Rate(rate) => rate.to_owned(),
        };
        let columns = 3 + heads.matches('|').count();
        let _ = writeln!(lines, "| system | {heads} | ours is so many times as fast |\n|{}", "---|".repeat(columns));
        let ours = self.rows.first().map_or(&[][..], |row| &row.values);
        for (at, row) in self.rows.iter().enumerate() {
            let name = if at == 0 { format!("**{}**", row.name) } else { row.name.to_owned() };
            let _ = write!(lines, "| {name} | {} |", range(&row.values));
            if let Unit::Seconds(amount, _) = self.unit {
                let _ = write!(lines, " {} |", short(amount / spread(&row.values).1));
            }
            let faster = match self.unit {
                Unit::Seconds(..) | Unit::Micros => ratios(&row.values, ours),
                Unit::Rate(_) => ratios(ours, &row.values),
            };
            let faster = if at == 0 { String::new() } else { format!("{} ", range(&faster)) };
            let _ = writeln!(lines, " {faster}|");
        }
        lines.push('\n');
        lines
    }
}

/// The median, with least and most.
fn range(values: &[f64]) -> String {
    if let [value] = values {
        return format!("{} (once)", short(*value));
    }
    let [least, middle, most] = <[f64; 3]>::from(spread(values)).map(short);
    format!("{middle} ({least}-{most})")
}

/// Three digits that say something, and no more.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".into(),
        size if size >= 99.95 => grouped(value.round() as i64),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A whole number with commas between thousands.
fn grouped(value: i64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A reason as one line that fits: what other programs say may be long, and have ticks.
fn one_line(reason: &str) -> String {
    let words = reason.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if words.chars().count() <= REASON_CHARS_MAX {
        return words;
    }
    let begin: String = words.chars().take(REASON_CHARS_MAX).collect();
    format!("{begin}…")
}

/// Load from which on the page says that the machine was busy.
const BUSY: f64 = 1.0;
const BUSY_NOTE: &str = "**Other programs ran at the same time.** A system of many processes then gets a larger share of the\n\
    processors than one of a single process, so ratios may favour it. Neither times nor ratios are firm.";
/// Longest reason on a page.
const REASON_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let row = |name, values: &[f64]| Row { name, values: values.to_vec() };
        let seconds = vec![row("Sector", &[2.0, 4.0, 1.0]), row("Other", &[20.0, 20.0, 20.0])];
        let rates = vec![row("GMP", &[300_000.0]), row("gRPC", &[10_000.0])];
        Report {
            what: "terasort",
            title: "Terasort, side by side",
            paragraphs: vec!["What it is.".into()],
            conditions: Conditions {
                date: "2026-01-02".into(),
                machine: "2 cores of a thing".into(),
                load: ("1.50".into(), "3.00".into()),
                command: "cargo xtask compare terasort".into(),
                rounds: 3,
            },
            tables: vec![
                Table { title: "1 GB".into(), unit: Unit::Seconds(1000.0, "MB/s"), rows: seconds },
                Table { title: "64 in flight".into(), unit: Unit::Rate("messages/s"), rows: rates },
            ],
            peers: vec![Peer { name: "Other", version: "1.2.3".into(), note: "It has no copies." }],
            missing: vec![Missing { name: "Third".into(), reason: "no\nsuch `package`".into() }],
        }
    }

    #[test]
    fn a_page_has_medians_with_least_and_most_and_ratios_pair_by_pair() {
        let page = report().page();
        let expected = [
            "# Terasort, side by side\n",
            "`cargo xtask compare terasort` wrote this page on 2026-01-02.\n",
            "Machine: 2 cores of a thing. The load was 1.50 before the first turn and 3.00 at the end.\n",
            "**Other programs ran at the same time.**",
            "| **Sector** | 2.00 (1.00-4.00) | 500 | |\n",
            // The ratios of the rounds are 10, 5 and 20; the ratio of the medians would be 10 too, its ends 20 and 5.
            "| Other | 20.0 (20.0-20.0) | 50.0 | 10.0 (5.00-20.0) |\n",
            "| **GMP** | 300,000 (once) | |\n",
            "| gRPC | 10,000 (once) | 30.0 (once) |\n",
            "- **Other**, 1.2.3. It has no copies.\n",
            "- **Third**: `no such 'package'`\n",
        ];
        for text in expected {
            assert!(page.contains(text), "{text:?} is not in\n{page}");
        }
    }

    #[test]
    fn a_page_says_nothing_of_missing_peers_or_load_where_there_are_none_and_cuts_long_reasons() {
        let mut report = report();
        report.missing.clear();
        report.conditions.load.0 = "0.40".into();
        assert!(!report.page().contains("Not measured") && !report.page().contains("Other programs"));
        report.missing.push(Missing { name: "Third".into(), reason: "word ".repeat(400) });
        let page = report.page();
        assert!(page.lines().all(|line| line.len() < 400), "{page}");
    }

    #[test]
    fn numbers_have_three_digits_that_say_something() {
        let cases = [(0.123_4, "0.12"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100"), (1_234_567.8, "1,234,568")];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!(short(f64::NAN), "-");
    }

    #[test]
    fn a_report_is_written_as_a_page_and_a_picture() {
        let folder = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
        report().write(&folder).expect("written");
        let [page, picture] =
            ["md", "svg"].map(|ending| fs::read_to_string(folder.join(format!("compare-terasort.{ending}"))));
        fs::remove_dir_all(&folder).expect("removed");
        assert!(page.expect("a page").contains("](compare-terasort.svg)"));
        assert!(picture.expect("a picture").starts_with("<svg"));
    }
}
