//! Cuts all tuples of one image: the file is opened once, its headers and its coordinates are read once, and its tuples
//! follow each other. What is wrong with one tuple never stops the others.

use std::time::Instant;

use fits::{ByteSource, Cutout, ImageError, ImageFile, Provenance};

use super::{ManifestRow, Parcel, Tuple, TupleGroup};

/// Cuts the tuples of one image, and gives each result to `take`, which may end it all. `by` says where that is:
/// `node` or `client`.
///
/// # Errors
/// The one of `take`.
pub fn cut_group<E>(
    source: impl ByteSource,
    group: &TupleGroup,
    by: &str,
    mut take: impl FnMut(Parcel) -> Result<(), E>,
) -> Result<(), E> {
    let mut opened = Opened::open(source);
    for tuple in &group.tuples {
        let begun = Instant::now();
        let cut = opened.cut(tuple, &group.content);
        let ms = begun.elapsed().as_secs_f64() * 1_000.0;
        take(match cut {
            Ok(content) => Parcel { outcome: ManifestRow::made(tuple, &content, ms, by), content },
            Err(error) => Parcel { outcome: ManifestRow::failed(tuple, &error, ms, by), content: Vec::new() },
        })?;
    }
    Ok(())
}

/// The image, or why there is none.
enum Opened<'a> {
    File(Box<ImageFile<'a>>),
    Broken(ImageError),
}

impl<'a> Opened<'a> {
    fn open(source: impl ByteSource + 'a) -> Self {
        match ImageFile::open(source) {
            Ok(file) => Self::File(Box::new(file)),
            Err(error) => Self::Broken(error),
        }
    }

    fn cut(&mut self, tuple: &Tuple, content: &str) -> Result<Vec<u8>, ImageError> {
        let file = match self {
            Self::File(file) => file,
            Self::Broken(error) => return Err(error.again()),
        };
        let provenance = Provenance {
            path: tuple.path.clone(),
            content: content.to_owned(),
            selection: tuple.selection.to_string(),
        };
        Cutout::find(file, &tuple.selection)?.fits(file, &provenance)
    }
}
