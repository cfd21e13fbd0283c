//! DataLink (1.1): what can be had of an image. That is the file, a picture of it, and cutouts, with the parameters of
//! SODA as programs read them. It never sends a file itself.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use dali::{DaliRequest, typed};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use vo::{
    Fault,
    votable::{Cell, Datatype, Field, InputParameter, QueryStatus, ServiceDescriptor, Table},
};

use super::{
    Portal,
    cut_order::{self, CutFormat},
};

/// `/datalink/links`.
pub(super) async fn links(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    match answer(&portal, request).await {
        Ok(table) => typed(MEDIA_TYPE, table.document()),
        Err(fault) => dali::fault(&fault),
    }
}

async fn answer(portal: &Portal, request: Request) -> Result<Table, Fault> {
    let asked = DaliRequest::read(&portal.at, request).await?;
    let ids: Vec<_> = asked.parameters.all("ID").take(IDS_MAX).collect();
    let (mut rows, mut coverage) = (Vec::new(), None);
    for id in &ids {
        match linked(portal, &asked, id).await {
            Ok((found, covers)) => {
                rows.extend(found);
                coverage = coverage.or(covers);
            }
            Err(fault) => rows.push(failed(id, &fault)),
        }
    }
    // What an image covers is only said where one is meant.
    let coverage = coverage.filter(|_| ids.len() == 1);
    let services = [
        ("soda-sync", "ivo://ivoa.net/std/SODA#sync-1.0", "/soda/sync"),
        ("soda-async", "ivo://ivoa.net/std/SODA#async-1.0", "/soda/async"),
    ];
    let services = services.map(|(id, standard_id, at)| ServiceDescriptor {
        id,
        standard_id,
        access_url: format!("{}{at}", asked.url),
        parameters: parameters(coverage.as_ref()),
    });
    Ok(Table {
        fields: FIELDS,
        rows,
        outcome: QueryStatus::Complete,
        standard_id: "ivo://ivoa.net/std/DataLink#links-1.1",
        services: services.into(),
    })
}

/// What an image covers, in the words of parameters: a circle, a polygon, times and wavelengths.
#[derive(Default)]
struct Coverage {
    circle: Option<String>,
    polygon: Option<String>,
    band: Option<String>,
    time: Option<String>,
}

async fn linked(portal: &Portal, asked: &DaliRequest, id: &str) -> Result<(Vec<Vec<Cell>>, Option<Coverage>), Fault> {
    let (path, extension) = cut_order::file(id)?;
    let described = portal.cutter.describe(&asked.caller.client, &path).await?;
    let is_meant = |hdu: i32| extension.as_ref().is_none_or(|meant| meant.to_string() == hdu.to_string());
    let row = described.iter().find(|row| row.problem.is_none() && is_meant(row.hdu));
    let coverage = row.map(|row| Coverage {
        circle: row.s_ra.zip(row.s_dec).zip(row.s_fov).map(|((ra, dec), fov)| format!("{ra} {dec} {}", fov / 2.0)),
        polygon: row.s_region.as_deref().and_then(|text| text.strip_prefix("POLYGON ICRS ")).map(str::to_owned),
        band: row.em_min.zip(row.em_max).map(|(low, high)| format!("{low:?} {high:?}")),
        time: row.t_min.map(|begin| format!("{begin} {}", row.t_max.unwrap_or(begin))),
    });
    let kilobytes = described.first().map(|row| row.access_estsize);
    let bytes = kilobytes.map_or(Cell::Null, |kilobytes| Cell::Integer(kilobytes.saturating_mul(1_000)));
    let media_type = described.first().map_or(CutFormat::Fits.media_type(), |row| row.access_format.as_str());
    let encoded = utf8_percent_encode(id, NON_ALPHANUMERIC);
    let content = format!("{}/api/v1/content{}", asked.url, utf8_percent_encode(&path, PATH_ESCAPES));
    let picture = format!("{}/soda/sync?ID={encoded}&RESPONSEFORMAT=image%2Fpng", asked.url);
    let link = |url: Cell, service: Cell, says: &str, semantics: &str, kind: &str, bytes: Cell| {
        vec![id.into(), url, service, Cell::Null, says.into(), semantics.into(), kind.into(), bytes]
    };
    let mut rows = vec![link(content.into(), Cell::Null, "The file", "#this", media_type, bytes)];
    if row.is_some() {
        let png = CutFormat::Png.media_type();
        rows.push(link(picture.into(), Cell::Null, "A picture of it", "#preview", png, Cell::Null));
        for (service, says) in [("soda-sync", "A part of it"), ("soda-async", "Many parts of it")] {
            rows.push(link(Cell::Null, service.into(), says, "#cutout", CutFormat::Fits.media_type(), Cell::Null));
        }
    }
    Ok((rows, coverage))
}

/// As DataLink says it of one of several (1.1, 3.4).
fn failed(id: &str, fault: &Fault) -> Vec<Cell> {
    let word = match fault {
        Fault::NotFound(_) => "NotFoundFault",
        Fault::Usage(_) | Fault::MultiValued(_) | Fault::TooLarge(_) => "UsageFault",
        Fault::Unavailable(_) => "TransientFault",
        Fault::NotAuthenticated(_) | Fault::NotAuthorized(_) => "AuthorizationFault",
        Fault::Failed(_) => "FatalFault",
    };
    let text = fault.to_string();
    let sentence = text.split_once(": ").map_or(text.as_str(), |(_, sentence)| sentence);
    let message = format!("{word}: {sentence}");
    vec![id.into(), Cell::Null, Cell::Null, message.into(), Cell::Null, "#this".into(), Cell::Null, Cell::Null]
}

fn parameters(coverage: Option<&Coverage>) -> Vec<InputParameter> {
    let largest = |value: fn(&Coverage) -> &Option<String>| coverage.and_then(|coverage| value(coverage).clone());
    let shape = |name, arraysize, xtype, largest| InputParameter {
        arraysize,
        unit: "deg",
        xtype,
        largest,
        ..InputParameter::new(name, Datatype::Double, "pos.outline;obs")
    };
    let interval = |name, ucd, unit, largest| InputParameter {
        arraysize: "2",
        unit,
        xtype: "interval",
        largest,
        ..InputParameter::new(name, Datatype::Double, ucd)
    };
    vec![
        InputParameter { of_column: "ID", ..InputParameter::new("ID", Datatype::Text, "meta.ref.url;meta.curation") },
        InputParameter::new("POS", Datatype::Text, "pos.outline;obs"),
        shape("CIRCLE", "3", "circle", largest(|coverage| &coverage.circle)),
        shape("POLYGON", "*", "polygon", largest(|coverage| &coverage.polygon)),
        interval("BAND", "em.wl;stat.interval", "m", largest(|coverage| &coverage.band)),
        interval("TIME", "time.interval;obs.exposure", "d", largest(|coverage| &coverage.time)),
        InputParameter {
            choices: &["I", "Q", "U", "V", "RR", "LL", "RL", "LR", "XX", "YY", "XY", "YX"],
            ..InputParameter::new("POL", Datatype::Text, "meta.code;phys.polarization")
        },
        InputParameter::new("SUB", Datatype::Text, "meta.code"),
        InputParameter {
            choices: &["application/fits", "image/png", "image/jpeg"],
            ..InputParameter::new("RESPONSEFORMAT", Datatype::Text, "meta.code.mime")
        },
    ]
}

const FIELDS: &[Field] = &[
    Field::new("ID", Datatype::Text, "meta.id;meta.main"),
    Field::new("access_url", Datatype::Text, "meta.ref.url"),
    Field::new("service_def", Datatype::Text, "meta.ref"),
    Field::new("error_message", Datatype::Text, "meta.code.error"),
    Field::new("description", Datatype::Text, "meta.note"),
    Field::new("semantics", Datatype::Text, "meta.code"),
    Field::new("content_type", Datatype::Text, "meta.code.mime"),
    Field {
        name: "content_length",
        datatype: Datatype::Long,
        ucd: "phys.size;meta.file",
        utype: "",
        unit: "byte",
        xtype: "",
    },
];
/// Of a document of links.
pub(super) const MEDIA_TYPE: &str = "application/x-votable+xml;content=datalink";
/// Images of one request.
const IDS_MAX: usize = 100;
/// A path keeps its slashes.
const PATH_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');
