//! Finds the table of a file and reads it. It never reads a second one.

use fits_well::{FitsReader, io::HduKind};

use super::{FitsTable, FitsTableError, ascii, binary, memory::Memory};
use crate::is_gzip;

/// The first table of a file, binary (`BINTABLE`; FITS 4.0, 7.3) or ASCII (`TABLE`; 7.2), with all its values.
///
/// Images that are compressed as tables are none.
///
/// # Errors
/// - `Damaged` if the file is no FITS file, is compressed as a whole, ends too early, or contradicts itself.
/// - `NoTable` if it has none.
/// - `Unsupported` for a table in compressed tiles, and for arrays with integers that no list holds.
/// - `TooLarge` if the values take more memory than a file of its length may.
pub fn read(bytes: &[u8]) -> Result<FitsTable, FitsTableError> {
    if is_gzip(bytes) {
        return Err(FitsTableError::damaged("the file", "it is compressed by gzip as a whole"));
    }
    let mut reader = FitsReader::from_bytes(bytes).map_err(FitsTableError::in_header)?;
    let found = reader.hdus().iter().find(|hdu| is_table(hdu.kind)).map(|hdu| (hdu.index, hdu.kind));
    let Some((hdu, kind)) = found else {
        let defect = reader.scan_defect().map(|defect| FitsTableError::damaged("a header", defect));
        return Err(defect.unwrap_or(FitsTableError::NoTable));
    };
    let mut memory = Memory::of_file(bytes.len());
    match kind {
        HduKind::AsciiTable => ascii::read(&mut reader, hdu, &mut memory),
        HduKind::BinTable => binary::read(&mut reader, hdu, &mut memory),
        _ => {
            let what = "the table".to_owned();
            Err(FitsTableError::Unsupported {
                what,
                reason: "its tiles are compressed; restore it with `funpack` first",
            })
        }
    }
}

fn is_table(kind: HduKind) -> bool {
    matches!(kind, HduKind::AsciiTable | HduKind::BinTable | HduKind::CompressedTable)
}
