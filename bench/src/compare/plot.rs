//! The tables of a comparison as a small picture (SVG): a dot for each median, a line from least to most. The axis is
//! logarithmic, since systems differ by factors of a hundred.

use std::fmt::Write;

use crate::{
    compare::report::{Row, Table, Unit, short},
    figures::spread,
};

/// The picture.
pub(crate) fn svg(tables: &[Table]) -> String {
    let mut body = String::new();
    let mut top = 0;
    for table in tables.iter().filter(|table| !table.rows.is_empty()) {
        top = panel(table, top, &mut body);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" width=\"{WIDTH}\" height=\"{top}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{top}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Draws one table from `top` on; where the next one begins.
fn panel(table: &Table, top: u32, body: &mut String) -> u32 {
    let unit = match table.unit {
        Unit::Seconds(..) => "seconds, less is better",
        Unit::Micros => "microseconds, less is better",
        Unit::Rate(unit) => unit,
    };
    let title = escape(&format!("{}: {unit}", table.title));
    let _ = writeln!(body, "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{title}</text>", top + 20);
    let axis = Axis::over(&table.rows);
    let (first, bottom) = (top + HEAD, top + HEAD + ROW * table.rows.len() as u32);
    for power in axis.from..=axis.to {
        let (x, value) = (axis.place(10f64.powi(power)), escape(&tick(power)));
        let _ = writeln!(body, "<path d=\"M{x:.1} {first}V{bottom}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            body,
            "<text x=\"{x:.1}\" y=\"{}\" fill=\"#666\" font-size=\"11\" text-anchor=\"middle\">{value}</text>",
            bottom + 13
        );
    }
    for (at, row) in table.rows.iter().enumerate() {
        let y = first + ROW * at as u32 + ROW / 2;
        let colour = if at == 0 { "#c0392b" } else { "#34567a" };
        let (least, middle, most) = spread(&row.values);
        let [from, x, to] = [least, middle, most].map(|value| axis.place(value));
        let _ =
            writeln!(body, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", LEFT - 12, y + 4, escape(row.name));
        let _ = writeln!(body, "<path d=\"M{from:.1} {y}H{to:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        let _ = writeln!(body, "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\"/>");
        let _ =
            writeln!(body, "<text x=\"{:.1}\" y=\"{}\" fill=\"{colour}\">{}</text>", to + 10.0, y + 4, short(middle));
    }
    bottom + FOOT
}

/// Powers of ten between which all values lie.
struct Axis {
    from: i32,
    to: i32,
}

impl Axis {
    fn over(rows: &[Row]) -> Self {
        let values = || rows.iter().flat_map(|row| &row.values).copied().filter(|value| *value > 0.0);
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(0.0, f64::max);
        if !least.is_finite() {
            return Self { from: 0, to: 1 };
        }
        let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        Self { from, to: to.max(from + 1) }
    }

    /// Where a value lies, from the picture's left edge.
    fn place(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        f64::from(LEFT) + share.clamp(0.0, 1.0) * f64::from(WIDTH - LEFT - RIGHT)
    }
}

fn tick(power: i32) -> String {
    if power < 0 {
        format!("{:.*}", power.unsigned_abs() as usize, 10f64.powi(power))
    } else {
        short(10f64.powi(power))
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const WIDTH: u32 = 760;
/// Room for names, and for the figure behind the last dot.
const LEFT: u32 = 220;
const RIGHT: u32 = 90;
/// Heights of a panel's title, of a row, and of what is below.
const HEAD: u32 = 32;
const ROW: u32 = 22;
const FOOT: u32 = 26;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_dot_for_each_system_where_its_median_lies() {
        let row = |name, values: &[f64]| Row { name, values: values.to_vec() };
        let rows = vec![row("ours", &[1.0, 1.0, 1.0]), row("a & b", &[9.0, 10.0, 100.0])];
        let picture = svg(&[Table { title: "1 < 2".into(), unit: Unit::Seconds(1.0, "MB/s"), rows }]);
        // The axis goes from 1 to 100 over 450 points.
        assert!(picture.contains("<circle cx=\"220.0\" cy=\"43\""), "{picture}");
        assert!(picture.contains("<circle cx=\"445.0\" cy=\"65\""), "{picture}");
        assert!(picture.contains("<path d=\"M434.7 65H670.0\""), "{picture}");
        assert!(picture.contains("1 &lt; 2: seconds") && picture.contains("a &amp; b"), "{picture}");
        assert_eq!(picture.matches("<circle").count(), 2);
    }

    #[test]
    fn a_picture_without_values_is_still_one() {
        let rows = vec![Row { name: "ours", values: Vec::new() }];
        let picture = svg(&[Table { title: "t".into(), unit: Unit::Rate("x/s"), rows }]);
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{picture}");
    }
}
