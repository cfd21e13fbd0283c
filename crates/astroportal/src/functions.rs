//! The functions that jobs run in SPEs. They cut tuples out of the images that lie at a node, describe images for the
//! index, and write slices of the index. Each gets whole files. What is wrong with an image is a row of the result, and
//! never an error of the job.

use fits::ImageFile;
use udf::{FunctionError, Input, Output};

use crate::{
    PathTable,
    obscore::{self, FileFacts, ImageRow, index_zone},
    tuples::{TupleTable, cut_group},
};

/// The symbol of the function that cuts tuples: parcels to bucket 0. The side file `tuples` is a
/// [`TupleTable`].
pub const CUT_IMAGES: &str = "sector_images_cut";
/// The symbol of the function that describes images: rows as lines of JSON, to the bucket of their zone. The
/// side file `contents` is a [`PathTable`] with what identifies each file's content.
pub const DESCRIBE_IMAGES: &str = "sector_images_describe";
/// The symbol of the function that writes lines of JSON as a Parquet file, to the bucket that they come from.
pub const WRITE_INDEX: &str = "sector_images_write_index";

udf::export!(
    sector_images_cut => cut_images,
    sector_images_describe => describe_images,
    sector_images_write_index => write_index,
);

fn cut_images(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let table = TupleTable::open(input.required_side_file("tuples")?)?;
    let Some(group) = table.find(input.path())? else { return Ok(()) };
    let (mut batch, mut records) = (Vec::new(), 0);
    cut_group(input.bytes(), &group, "node", |parcel| {
        parcel.write_to(&mut batch)?;
        records += 1;
        if batch.len() >= BATCH_BYTES {
            output.emit_records(0, &batch, records)?;
            batch.clear();
            records = 0;
        }
        Ok::<_, FunctionError>(())
    })?;
    Ok(output.emit_records(0, &batch, records)?)
}

fn describe_images(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let contents = PathTable::open(input.required_side_file("contents")?)?;
    let of_file = FileFacts {
        path: input.path().to_owned(),
        content: contents.find(input.path())?.unwrap_or_default().to_owned(),
        bytes: input.bytes().len() as u64,
    };
    let rows = match ImageFile::open(input.bytes()) {
        Ok(mut file) => obscore::describe(&mut file, &of_file),
        Err(error) => vec![ImageRow::damaged(&of_file, &error)],
    };
    for row in rows {
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        output.emit(index_zone(&row, input.buckets()), &line)?;
    }
    Ok(())
}

fn write_index(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let lines = input.bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut rows = lines.map(serde_json::from_slice).collect::<Result<Vec<ImageRow>, _>>()?;
    rows.sort_by(|one, other| (&one.path, one.hdu).cmp(&(&other.path, other.hdu)));
    let Some(first) = rows.first() else { return Ok(()) };
    // All rows of a bucket are of one zone, and the slice gets its number.
    let zone = index_zone(first, input.buckets());
    Ok(output.emit(zone, &obscore::write_parquet(&rows)?)?)
}

/// Bytes handed over at once.
const BATCH_BYTES: usize = 1 << 20;
