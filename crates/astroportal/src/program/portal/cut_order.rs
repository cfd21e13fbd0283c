//! What a request of SODA asks for (SODA 1.0, 3): one cutout, or each combination of values that are given several times.
//! It never looks at an image.

use fits::{Extension, Section, Selection, sky::SkyRegion};
use vo::{DaliParameters, Fault, Interval};

/// One cutout.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CutOrder {
    /// The file.
    pub(super) path: String,
    /// Which part of it.
    pub(super) selection: Selection,
    /// Wavelengths in a vacuum, in metres.
    pub(super) band: Option<Interval>,
    /// Modified Julian dates.
    pub(super) time: Option<Interval>,
    /// Polarisations.
    pub(super) polarisations: Vec<String>,
    /// What it is written as.
    pub(super) format: CutFormat,
}

/// What a cutout is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CutFormat {
    #[default]
    Fits,
    Png,
    Jpeg,
}

impl CutFormat {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Fits => "application/fits",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
        }
    }

    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Png => "png",
            Self::Jpeg => "jpg",
        }
    }

    /// By a media type, or by a short name.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/fits" | "image/fits" | "fits" => Ok(Self::Fits),
            "image/png" | "png" => Ok(Self::Png),
            "image/jpeg" | "jpeg" | "jpg" => Ok(Self::Jpeg),
            _ => {
                let known = "application/fits, image/png and image/jpeg";
                Err(Fault::Usage(format!("RESPONSEFORMAT `{text}` is none of {known}")))
            }
        }
    }
}

impl CutOrder {
    /// The one cutout of a request.
    ///
    /// # Errors
    /// What is wrong with it; `MultiValued` if it asks for several.
    pub(super) fn one(parameters: &DaliParameters) -> Result<Self, Fault> {
        for name in ["ID", "POS", "CIRCLE", "POLYGON", "SUB", "BAND", "TIME"] {
            parameters.one(name)?;
        }
        let mut orders = Self::all(parameters)?;
        match (orders.pop(), orders.is_empty()) {
            (Some(order), true) => Ok(order),
            _ => Err(Fault::Usage("give one of POS, CIRCLE, POLYGON and SUB".into())),
        }
    }

    /// All cutouts of a request: each combination. Files follow each other in their order, and for each of them the regions
    /// do, then the wavelengths, then the times.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn all(parameters: &DaliParameters) -> Result<Vec<Self>, Fault> {
        let files: Vec<_> = parameters.all("ID").map(file).collect::<Result<_, _>>()?;
        if files.is_empty() {
            return Err(Fault::Usage("the parameter ID is missing: the path of an image".into()));
        }
        let places = places(parameters)?;
        let bands = values::<Interval>(parameters, "BAND")?;
        let times = values::<Interval>(parameters, "TIME")?;
        let polarisations: Vec<String> = parameters.all("POL").map(str::to_ascii_uppercase).collect();
        let format = parameters.one("RESPONSEFORMAT")?.map(CutFormat::parse).transpose()?.unwrap_or_default();
        let count =
            [places.len(), bands.len(), times.len()].iter().fold(files.len(), |all, one| all.saturating_mul(*one));
        if count > ORDERS_MAX {
            return Err(Fault::TooLarge(format!("the request asks for {count} cutouts, more than {ORDERS_MAX}")));
        }
        let mut orders = Vec::with_capacity(count);
        for (path, extension) in &files {
            for place in &places {
                for band in &bands {
                    for time in &times {
                        orders.push(Self {
                            path: path.clone(),
                            selection: place.in_image(extension.clone()),
                            band: *band,
                            time: *time,
                            polarisations: polarisations.clone(),
                            format,
                        });
                    }
                }
            }
        }
        Ok(orders)
    }
}

/// A part of any image.
enum Place {
    Whole,
    Region(SkyRegion),
    Section(Section),
}

impl Place {
    fn in_image(&self, extension: Option<Extension>) -> Selection {
        match self {
            Self::Whole => Selection::Section(Section::default().or_in(extension)),
            Self::Region(region) => Selection::Region { extension, region: region.clone() },
            Self::Section(section) => Selection::Section(section.clone().or_in(extension)),
        }
    }
}

fn places(parameters: &DaliParameters) -> Result<Vec<Place>, Fault> {
    let mut places = Vec::new();
    for region in parameters.read::<SkyRegion>("POS")? {
        places.push(Place::Region(region));
    }
    for shape in ["CIRCLE", "POLYGON"] {
        for numbers in parameters.all(shape) {
            let region: Result<SkyRegion, _> = format!("{shape} {numbers}").parse();
            places.push(Place::Region(region.map_err(|error| Fault::Usage(error.to_string()))?));
        }
    }
    for section in parameters.read::<Section>("SUB")? {
        places.push(Place::Section(section));
    }
    if places.is_empty() {
        places.push(Place::Whole);
    }
    Ok(places)
}

fn values<T: std::str::FromStr<Err: ToString>>(
    parameters: &DaliParameters,
    name: &str,
) -> Result<Vec<Option<T>>, Fault> {
    let values: Vec<_> = parameters.read::<T>(name)?.into_iter().map(Some).collect();
    Ok(if values.is_empty() { vec![None] } else { values })
}

/// The file that an identifier means, and the image in it: `/sky/a.fits`, `/sky/a.fits#1`, with `sector:/` before it.
pub(super) fn file(id: &str) -> Result<(String, Option<Extension>), Fault> {
    let rest = id.strip_prefix("sector:/").unwrap_or(id);
    let (path, number) = match rest.rsplit_once('#') {
        Some((path, number)) => match number.parse() {
            Ok(number) => (path, Some(Extension::Number(number))),
            // A `#` may be part of a name.
            Err(_) => (rest, None),
        },
        None => (rest, None),
    };
    if path.starts_with('/') && path.len() > 1 {
        return Ok((path.to_owned(), number));
    }
    Err(Fault::NotFound(format!("`{id}` is no identifier: it is the path of an image, such as /sky/m51.fits#0")))
}

/// Cutouts of one request.
const ORDERS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all(query: &str) -> Result<Vec<CutOrder>, Fault> {
        CutOrder::all(&DaliParameters::parse(query))
    }

    #[test]
    fn an_identifier_is_a_path_with_the_number_of_an_image() {
        let file = |id| file(id).map(|(path, number)| (path, number.map(|number| number.to_string())));
        assert_eq!(file("/sky/a.fits#2"), Ok(("/sky/a.fits".into(), Some("2".into()))));
        assert_eq!(file("sector://sky/a.fits"), Ok(("/sky/a.fits".into(), None)));
        assert_eq!(file("/sky/a#b.fits"), Ok(("/sky/a#b.fits".into(), None)));
        for id in ["", "/", "a.fits", "ivo://x/y"] {
            assert_eq!(file(id).unwrap_err().status(), 404, "{id}");
        }
    }

    #[test]
    fn each_combination_is_a_cutout_in_a_stated_order() {
        let orders =
            all("ID=/a&ID=/b%230&CIRCLE=1+2+3&CIRCLE=4+5+6&POS=RANGE+1+2+3+4&BAND=1+2&BAND=3&POL=I&POL=q").unwrap();
        assert_eq!(orders.len(), 12);
        let said =
            |order: &CutOrder| (order.path.clone(), order.selection.to_string(), order.band.map(|band| band.low));
        assert_eq!(said(&orders[0]), ("/a".into(), "RANGE 1 2 3 4".into(), Some(1.0)));
        assert_eq!(said(&orders[1]), ("/a".into(), "RANGE 1 2 3 4".into(), Some(3.0)));
        assert_eq!(said(&orders[2]), ("/a".into(), "CIRCLE 1 2 3".into(), Some(1.0)));
        assert_eq!(said(&orders[11]), ("/b".into(), "[0] CIRCLE 4 5 6".into(), Some(3.0)));
        assert!(orders.iter().all(|order| order.polarisations == ["I", "Q"]));
        let many = "&CIRCLE=1+2+3".repeat(10_001);
        assert_eq!(all(&format!("ID=/a{many}")).unwrap_err().status(), 413);
    }

    #[test]
    fn a_synchronous_request_is_for_one_cutout() {
        let one = |query: &str| CutOrder::one(&DaliParameters::parse(query));
        assert_eq!(one("ID=/a").unwrap().selection.to_string(), "");
        assert_eq!(one("id=/a%231&sub=[1:5,*]&responseformat=png").unwrap().selection.to_string(), "[1][1:5,*]");
        assert_eq!(one("ID=/a&SUB=[2][1:5]").unwrap().selection.to_string(), "[2][1:5]");
        assert_eq!(one("ID=/a&ID=/b"), Err(Fault::MultiValued("ID".into())));
        assert_eq!(one("ID=/a&CIRCLE=1+2+3&CIRCLE=1+2+3"), Err(Fault::MultiValued("CIRCLE".into())));
        for query in [
            "",
            "ID=/a&CIRCLE=1+2+3&POLYGON=1+2+3+4+5+6",
            "ID=/a&POS=BOX+1+2+3+4",
            "ID=/a&CIRCLE=x",
            "ID=/a&SUB=1:2",
            "ID=/a&BAND=2+1",
            "ID=/a&RESPONSEFORMAT=text/html",
        ] {
            assert_eq!(one(query).unwrap_err().status(), 400, "{query}");
        }
    }
}
