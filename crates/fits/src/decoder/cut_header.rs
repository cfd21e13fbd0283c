//! The header of a cutout. It is the image's own, moved: reference pixels of every coordinate system, of IRAF's and of
//! the plates'. What names parts of the whole image goes. It never changes a value's meaning, and never a coordinate.

use std::collections::BTreeSet;

use fits_well::{
    FitsError,
    header::{CommentaryName, Header, Record, RecordView, Value},
};

use crate::PixelBox;

/// What all cutouts of an image have in their headers. `primary` is the file's first header where the cutout becomes a
/// primary image and its own header inherits from that.
pub(super) fn of_image(header: &Header, primary: Option<&Header>) -> Result<Header, FitsError> {
    let mut kept = Header::new();
    let inherits = header.get_logical("INHERIT").ok().flatten() == Some(true);
    copy(header, &mut kept, |name| name != "INHERIT" && !is_stale(name));
    if let (Some(primary), true) = (primary, inherits) {
        let own = kept.clone();
        let is_new = |name: &str| !is_stale(name) && !own.contains(name).unwrap_or(true) && !is_of_the_file(name);
        copy(primary, &mut kept, is_new);
    }
    if header.contains("CPDIS1")? || header.contains("D2IMDIS1")? {
        kept.push_commentary(CommentaryName::HISTORY, "The lookup tables of the distortion are left out")?;
    }
    Ok(kept)
}

/// The header of one part, from that of [`of_image`]. `history` are lines without the word.
pub(super) fn of_part(of_image: &Header, part: &PixelBox, history: &[String]) -> Result<Header, FitsError> {
    let mut cut = of_image.clone();
    let offsets: Vec<f64> = part.axes().iter().map(|(first, _)| (first - 1) as f64).collect();
    shift(&mut cut, &offsets)?;
    for line in history {
        for text in wrapped(line) {
            cut.push_commentary(CommentaryName::HISTORY, text)?;
        }
    }
    Ok(cut)
}

/// The file's first header, for a file of several cutouts.
pub(super) fn of_primary(header: &Header) -> Header {
    let mut primary = Header::new();
    copy(header, &mut primary, |name| !is_stale(name));
    primary
}

/// Copies the records with such names, and comments. Records that no one can read stay behind.
fn copy(from: &Header, to: &mut Header, takes: impl Fn(&str) -> bool) {
    for record in from.iter() {
        let record = match record {
            RecordView::Valued { keyword, value, comment } if takes(keyword.as_str()) => {
                Record::Valued { keyword, value: value.clone(), comment: comment.map(str::to_owned) }
            }
            RecordView::Hierarch { name, value, comment } => {
                Record::Hierarch { name: name.clone(), value: value.clone(), comment: comment.map(str::to_owned) }
            }
            RecordView::Commentary { name, text } if is_comment(name) => {
                Record::Commentary { name, text: text.map(str::to_owned) }
            }
            _ => continue,
        };
        // What the standard does not allow to be written is left out, as a record that cannot be read is.
        let _ = to.insert_record(to.len(), record);
    }
}

fn is_comment(name: CommentaryName) -> bool {
    [CommentaryName::COMMENT, CommentaryName::HISTORY, CommentaryName::BLANK].contains(&name)
}

/// Moves each axis by so many pixels.
fn shift(header: &mut Header, offsets: &[f64]) -> Result<(), FitsError> {
    for (axis, letter) in declared_axes(header) {
        let Some(offset) = axis.checked_sub(1).and_then(|at| offsets.get(at)) else { continue };
        let name = format!("CRPIX{axis}{letter}");
        // By default the reference pixel is 0.
        let before = header.get_real(name.as_str())?.unwrap_or(0.0);
        header.set(name.as_str(), before - offset)?;
    }
    // The offsets of IRAF's physical coordinates, and of plates' (DSS).
    for (axis, offset) in (1..).zip(offsets) {
        for (name, by) in [(format!("LTV{axis}"), -offset), (format!("CNPIX{axis}"), *offset)] {
            let Some(value) = header.get(name.as_str())? else { continue };
            let is_whole = matches!(value, Value::Integer(_));
            let Some(before) = header.get_real(name.as_str())? else { continue };
            let after = before + by;
            if is_whole && after.abs() < WHOLE_MAX {
                header.set(name.as_str(), after as i64)?;
            } else {
                header.set(name.as_str(), after)?;
            }
        }
    }
    Ok(())
}

/// The axes, from 1, of which coordinates are declared, each with the letter of its system; the first system has none.
fn declared_axes(header: &Header) -> BTreeSet<(usize, String)> {
    let of_name = |name: &str| {
        let rest = ["CTYPE", "CRVAL", "CRPIX"].iter().find_map(|root| name.strip_prefix(root))?;
        let letter = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let axis = rest[..rest.len() - letter.len()].parse().ok()?;
        let is_letter = letter.is_empty() || (letter.len() == 1 && letter.as_bytes()[0].is_ascii_uppercase());
        is_letter.then(|| (axis, letter.to_owned()))
    };
    header.iter().filter_map(|record| of_name(record.keyword()?.as_str())).collect()
}

/// Keywords that are true of the whole image alone: where its parts are, and its extremes.
fn is_stale(name: &str) -> bool {
    const STALE: [&str; 4] = ["DATAMIN", "DATAMAX", "ZHECKSUM", "ZDATASUM"];
    let is_section = ["DATASEC", "TRIMSEC", "BIASSEC", "CCDSEC", "DETSEC", "AMPSEC"]
        .iter()
        .any(|root| name.strip_prefix(root).is_some_and(|rest| rest.len() <= 1));
    // Lookup tables of a distortion lie in extensions that do not come along.
    let is_lookup = ["CPDIS", "CPERR", "D2IM"].iter().any(|root| name.starts_with(root));
    is_section || is_lookup || STALE.contains(&name)
}

/// Keywords of a first header that say nothing of its extensions' images.
fn is_of_the_file(name: &str) -> bool {
    const OF_THE_FILE: [&str; 8] =
        ["EXTEND", "NEXTEND", "EXTNAME", "EXTVER", "EXTLEVEL", "CHECKSUM", "DATASUM", "ORIGIN"];
    OF_THE_FILE.contains(&name)
}

/// A line in pieces that a record holds.
fn wrapped(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // Only ASCII stands in headers, as `Provenance` sees to.
        let (piece, after) = rest.split_at(rest.len().min(HISTORY_BYTES));
        rest = after;
        Some(piece)
    })
}

/// Bytes of text in a record of history.
const HISTORY_BYTES: usize = 72;
/// Whole numbers up to here are exact as reals.
const WHOLE_MAX: f64 = 9e15;
