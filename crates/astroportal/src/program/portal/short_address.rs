//! `/cutout?ra=…&dec=…&size=…`: a cutout as survey sites give it, of the image in the index that has the position nearest
//! to its middle. It never asks for an identifier.

use std::sync::Arc;

use astroportal::tuples::Tuple;
use axum::{
    extract::{Request, State},
    response::Response,
};
use dali::DaliRequest;
use fits::sky::SkyPosition;
use vo::{DaliParameters, Fault};

use super::{
    Portal,
    cut_order::{CutFormat, CutOrder},
    index_cache, soda,
};
use crate::{
    nearest_images::{NearestImages, PlacedTuple},
    tuple_file::SIZE_ARCMIN,
};

/// `/cutout`.
pub(super) async fn cutout(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    match answer(&portal, request).await {
        Ok(response) => response,
        Err(fault) => dali::fault(&fault),
    }
}

async fn answer(portal: &Portal, request: Request) -> Result<Response, Fault> {
    let asked = DaliRequest::read(&portal.at, request).await?;
    let position = position(&asked.parameters)?;
    let size = asked.parameters.one("size")?.map_or(Ok(SIZE_ARCMIN), arc_minutes)?;
    let layer = asked.parameters.one("layer")?;
    let format = asked.parameters.one("format")?.map(CutFormat::parse).transpose()?.unwrap_or_default();
    let placed = PlacedTuple {
        number: 1,
        position,
        size_arcmin: (size, size),
        layer: layer.map(Into::into),
        name: String::new(),
    };
    let index = index_cache::required(portal.index.as_deref())?;
    let (images, without) = index.find_images(&asked.caller.client, NearestImages::new(vec![placed])).await?;
    let Some(Tuple { path, selection, .. }) = images.into_iter().flatten().next() else {
        return Err(Fault::NotFound(without.into_iter().map(|row| row.message).collect()));
    };
    let order = CutOrder { path, selection, band: None, time: None, polarisations: Vec::new(), format };
    let cut = portal.cutter.cut(&asked.caller.client, order).await?;
    let cut = cut.ok_or_else(|| Fault::NotFound(format!("no image in the index has {position}")))?;
    Ok(soda::file(format.media_type(), cut))
}

fn position(parameters: &DaliParameters) -> Result<SkyPosition, Fault> {
    let (ra, dec) = (parameters.one("ra")?, parameters.one("dec")?);
    let (ra, dec) = ra.zip(dec).ok_or_else(|| Fault::Usage("give ra and dec, in degrees or like 13:29:53".into()))?;
    format!("{ra},{dec}").parse().map_err(|error: fits::ImageError| Fault::Usage(error.to_string()))
}

/// Degrees, or a number with its unit: `0.1`, `6arcmin`, `30"`.
fn arc_minutes(text: &str) -> Result<f64, Fault> {
    let wrong = || Fault::Usage(format!("`{text}` is no size: write degrees like 0.1, or 6arcmin, or 30arcsec"));
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let minutes = match unit.trim() {
        "" | "deg" | "d" => number * 60.0,
        "arcmin" | "'" | "m" => number,
        "arcsec" | "\"" | "s" => number / 60.0,
        _ => return Err(wrong()),
    };
    if minutes.is_finite() && minutes > 0.0 { Ok(minutes) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_or_is_in_degrees() {
        for (text, minutes) in
            [("0.1", 6.0), ("6arcmin", 6.0), ("30arcsec", 0.5), ("2'", 2.0), ("1deg", 60.0), ("6 arcmin", 6.0)]
        {
            assert_eq!(arc_minutes(text), Ok(minutes), "{text}");
        }
        for text in ["", "x", "-1", "0", "3parsec", "1e999"] {
            assert!(arc_minutes(text).is_err(), "{text}");
        }
    }
}
