//! Rows to look at: gathered up to a number, and printed in columns. It never says that these are all rows when there
//! are more.

use datafusion::arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use terminal::show;

/// Rows that are printed when all of them are known.
pub(crate) struct TextRows {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    most: usize,
    has_more: bool,
}

impl TextRows {
    /// For at most this many rows.
    pub(crate) fn new(schema: &SchemaRef, most: usize) -> Self {
        let head = schema.fields().iter().map(|field| {
            // A blank marks a column of numbers, which stand to the right.
            let mark = if is_number(field.data_type()) { " " } else { "" };
            format!("{mark}{}", field.name())
        });
        Self { head: head.collect(), rows: Vec::new(), most, has_more: false }
    }

    /// Takes rows; false when no more are wanted.
    ///
    /// # Errors
    /// A value that has no text.
    pub(crate) fn add(&mut self, rows: &RecordBatch) -> Result<bool, ArrowError> {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
        for row in 0..rows.num_rows() {
            if self.rows.len() == self.most {
                self.has_more = true;
                return Ok(false);
            }
            let cells = columns.iter().map(|column| column.value(row).try_to_string());
            self.rows.push(cells.collect::<Result<_, _>>()?);
        }
        Ok(true)
    }

    /// Prints them, and gives how many there are if not all were printed.
    pub(crate) fn print(&self) -> Option<usize> {
        let is_plan = self.head.len() == 2 && self.head[0] == "plan_type";
        if is_plan {
            for row in &self.rows {
                show::line(format!("{}:", row[0]));
                for line in row[1].lines() {
                    show::line(format!("  {line}"));
                }
            }
        } else {
            let head: Vec<&str> = self.head.iter().map(String::as_str).collect();
            show::table(&head, &self.rows);
        }
        self.has_more.then_some(self.rows.len())
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use datafusion::arrow::{
        array::Int32Array,
        datatypes::{Field, Schema},
    };

    use super::*;

    #[test]
    fn no_more_rows_are_taken_than_wanted_and_it_is_known_that_there_are_more() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
        let numbers =
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int32Array::from(vec![1, 2, 3]))]).unwrap();
        let mut rows = TextRows::new(&schema, 3);
        assert!(rows.add(&numbers).unwrap());
        assert!(!rows.has_more);
        assert!(!rows.add(&numbers).unwrap());
        assert!(rows.has_more);
        assert_eq!((rows.head.as_slice(), rows.rows.len()), (&[" n".to_owned()][..], 3));
    }
}
