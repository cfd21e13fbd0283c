//! SIA (2.0): which images there are, by place, wavelength, time and what headers say, from the index. It opens the slices
//! of the zones around a place alone, and never an image.

use std::sync::Arc;

use astroportal::obscore::ImageRow;
use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use dali::{DaliRequest, typed};
use fits::sky::SkyRegion;
use http::{StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use vo::{
    DaliParameters, Fault, Interval,
    votable::{QueryStatus, Table},
};

use super::{Portal, index_cache, obscore_table};
use crate::nearest_images::lies_in;

/// `/sia2/query`.
pub(super) async fn query(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    match answer(&portal, request).await {
        Ok(table) => typed(VOTABLE, table.document()),
        // As DALI wants it of a service that answers with tables.
        Err(fault) if fault.status() != StatusCode::UNAUTHORIZED => {
            let document = Table::error_document(&fault.to_string());
            (fault.status(), [(header::CONTENT_TYPE, VOTABLE)], document).into_response()
        }
        Err(fault) => dali::fault(&fault),
    }
}

async fn answer(portal: &Portal, request: Request) -> Result<Table, Fault> {
    let asked = DaliRequest::read(&portal.at, request).await?;
    let wanted = Wanted::read(&asked.parameters)?;
    let (rows, outcome) = find(portal, &asked.caller.client, &wanted).await?;
    let cells = |row: &ImageRow| {
        let id = utf8_percent_encode(&row.obs_publisher_did, NON_ALPHANUMERIC);
        obscore_table::cells(row, format!("{}/datalink/links?ID={id}", asked.url))
    };
    Ok(Table {
        fields: obscore_table::FIELDS,
        rows: rows.iter().map(cells).collect(),
        outcome,
        standard_id: "ivo://ivoa.net/std/SIA#query-2.0",
        services: Vec::new(),
    })
}

/// The images of the index that are wanted, as the caller sees it.
async fn find(portal: &Portal, cloud: &client::Client, wanted: &Wanted) -> Result<(Vec<ImageRow>, QueryStatus), Fault> {
    let index = index_cache::required(portal.index.as_deref())?;
    let folder = index.open(cloud).await?;
    let mut rows = Vec::new();
    for entry in folder.slices_near(wanted.near().as_deref()) {
        let slice = index.slice(cloud, entry).await?;
        for row in slice.iter().filter(|row| wanted.has(row)) {
            if rows.len() >= wanted.rows_max {
                return Ok((rows, QueryStatus::Overflow));
            }
            rows.push(row.clone());
        }
    }
    Ok((rows, QueryStatus::Complete))
}

/// A number that a row has.
type NumberOf = fn(&ImageRow) -> Option<f64>;
/// A text that a row has.
type TextOf = fn(&ImageRow) -> Option<&str>;

/// What is wanted of a row: of each parameter, one of its values.
#[derive(Debug)]
struct Wanted {
    places: Vec<SkyRegion>,
    bands: Vec<Interval>,
    ranges: Vec<(Vec<Interval>, NumberOf)>,
    times: Vec<Interval>,
    texts: Vec<(Vec<String>, TextOf)>,
    calibrations: Vec<i32>,
    formats: Vec<String>,
    /// Of things that no row of ours has, something was asked for.
    is_impossible: bool,
    rows_max: usize,
}

impl Wanted {
    fn read(parameters: &DaliParameters) -> Result<Self, Fault> {
        let texts = |name: &str| parameters.all(name).map(str::to_owned).collect::<Vec<_>>();
        let ranges: [(&str, NumberOf); 2] = [("FOV", |row| row.s_fov), ("EXPTIME", |row| row.t_exptime)];
        let named: [(&str, TextOf); 6] = [
            ("ID", |row| Some(&row.obs_publisher_did)),
            ("COLLECTION", |row| Some(&row.obs_collection)),
            ("FACILITY", |row| row.facility_name.as_deref()),
            ("INSTRUMENT", |row| row.instrument_name.as_deref()),
            ("DPTYPE", |row| row.dataproduct_type.as_deref()),
            ("TARGET", |row| row.target_name.as_deref()),
        ];
        let ranges: Result<Vec<_>, Fault> =
            ranges.into_iter().map(|(name, value)| Ok((parameters.read(name)?, value))).collect();
        let unknown_here = ["SPATRES", "SPECRP", "TIMERES"];
        for name in unknown_here {
            parameters.read::<Interval>(name)?;
        }
        let formats =
            texts("FORMAT").into_iter().chain(texts("RESPONSEFORMAT").into_iter().filter(|format| !is_votable(format)));
        let rows_max = parameters.read_one::<usize>("MAXREC")?.unwrap_or(ROWS_DEFAULT).min(ROWS_MAX);
        Ok(Self {
            places: parameters.read("POS")?,
            bands: parameters.read("BAND")?,
            ranges: ranges?,
            times: parameters.read("TIME")?,
            texts: named.into_iter().map(|(name, value)| (texts(name), value)).collect(),
            calibrations: parameters.read("CALIB")?,
            formats: formats.collect(),
            is_impossible: unknown_here.into_iter().chain(["POL"]).any(|name| parameters.all(name).next().is_some()),
            rows_max,
        })
    }

    /// The declinations around which it is looked for, each with a radius; `None` for all of the sky.
    fn near(&self) -> Option<Vec<(f64, f64)>> {
        let near = |place: &SkyRegion| (place.centre().dec_degrees, place.reach_degrees());
        (!self.places.is_empty()).then(|| self.places.iter().map(near).collect())
    }

    fn has(&self, row: &ImageRow) -> bool {
        let among = |wanted: &[Interval], range: Option<(f64, f64)>| {
            wanted.is_empty()
                || range.is_some_and(|(low, high)| wanted.iter().any(|interval| interval.overlaps(low, high)))
        };
        let is_text = |(wanted, value): &(Vec<String>, TextOf)| {
            wanted.is_empty() || value(row).is_some_and(|value| wanted.iter().any(|wanted| wanted == value))
        };
        let is_format = |format: &String| format.split(';').next().is_some_and(|kind| kind == row.access_format);
        // A file that cannot be read is no image.
        row.dataproduct_type.is_some()
            && !self.is_impossible
            && self.texts.iter().all(is_text)
            && (self.calibrations.is_empty() || self.calibrations.contains(&row.calib_level))
            && (self.formats.is_empty() || self.formats.iter().any(is_format))
            && among(&self.bands, row.em_min.zip(row.em_max))
            && among(&self.times, row.t_min.map(|begin| (begin, row.t_max.unwrap_or(begin))))
            && self.ranges.iter().all(|(wanted, value)| among(wanted, value(row).map(|value| (value, value))))
            && (self.places.is_empty() || self.places.iter().any(|place| lies_in(row, place)))
    }
}

fn is_votable(format: &str) -> bool {
    format.eq_ignore_ascii_case("votable") || format.starts_with(VOTABLE)
}

pub(super) const VOTABLE: &str = "application/x-votable+xml";
/// Rows of an answer unless MAXREC says it.
const ROWS_DEFAULT: usize = 10_000;
/// Rows of an answer at most.
const ROWS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn has(query: &str) -> bool {
        let row = ImageRow {
            dataproduct_type: Some("image".into()),
            calib_level: 1,
            obs_collection: "sky".into(),
            obs_publisher_did: "/sky/a.fits#0".into(),
            access_format: "application/fits".into(),
            s_ra: Some(0.0),
            s_dec: Some(0.0),
            s_fov: Some(2.9),
            s_region: Some("POLYGON ICRS 1 -1 359 -1 359 1 1 1".into()),
            em_min: Some(5e-7),
            em_max: Some(6e-7),
            t_min: Some(53_000.0),
            t_max: None,
            t_exptime: Some(60.0),
            ..ImageRow::default()
        };
        Wanted::read(&DaliParameters::parse(query)).unwrap().has(&row)
    }

    #[test]
    fn all_parameters_must_hold_and_one_value_of_each() {
        for query in [
            "",
            "POS=CIRCLE+0+0+0.1",
            "POS=CIRCLE+90+0+1&POS=RANGE+350+370+-1+1",
            "BAND=5.5e-7&TIME=52999+53001&EXPTIME=60&FOV=1+3",
            "COLLECTION=other&COLLECTION=sky&CALIB=1&DPTYPE=image&FORMAT=application/fits",
            "ID=/sky/a.fits%230&RESPONSEFORMAT=votable",
        ] {
            assert!(has(query), "{query}");
        }
        for query in [
            "POS=CIRCLE+1.6+1.6+0.7",
            "POS=CIRCLE+180+0+1",
            "BAND=7e-7+1",
            "TIME=53001+Inf",
            "POS=CIRCLE+0+0+1&COLLECTION=other",
            "TARGET=M51",
            "POL=I",
            "SPATRES=1+2",
            "CALIB=2",
            "FORMAT=image/png",
        ] {
            assert!(!has(query), "{query}");
        }
        for query in ["POS=BOX+1+2+3+4", "BAND=x", "MAXREC=-1", "CALIB=a", "TIMERES=2+1"] {
            assert_eq!(Wanted::read(&DaliParameters::parse(query)).unwrap_err().status(), 400, "{query}");
        }
    }
}
