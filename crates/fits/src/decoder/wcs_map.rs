//! The sky of an image by its WCS, of every kind that the library evaluates: 27 projections, SIP, TPV, tables. Its
//! coordinates become ICRS. It never iterates without end: a WCS that diverges has no place.

use fits_well::{
    header::Header,
    io::StreamReader,
    wcs::{CelestialReferenceFrame, Description, Wcs},
};

use crate::{
    ImageError,
    decoder::ImageDescription,
    sky::{PixelPosition, SkyFrame, SkyMap, SkyPosition},
};

/// The sky of an image.
pub(super) struct WcsMap {
    wcs: Wcs,
    frame: SkyFrame,
    /// Longitude and latitude: their axes, from 0.
    axes: [usize; 2],
    pixels: [u64; 2],
    /// The reference pixel, and what lies there: what the axes beside the sky's have.
    reference_pixel: Vec<f64>,
    reference_world: Vec<f64>,
}

impl WcsMap {
    pub(super) fn read<R: std::io::Read + std::io::Seek>(
        reader: &mut StreamReader<R>,
        image: &ImageDescription,
    ) -> Result<Self, ImageError> {
        let unknown = |reason: String| ImageError::NoSky(reason);
        let wcs = reader.read_wcs(image.hdu, None).map_err(|error| unknown(error.to_string()))?;
        match Self::of(wcs, image) {
            // Axes that are not evaluated (a time table, say) do not matter to the sky.
            Err(Refused::OtherAxes) => {
                let header = reader.hdu(image.hdu).map_err(|error| unknown(error.to_string()))?.header.clone();
                let wcs = Wcs::from_header(&of_two_axes(header), None).map_err(|error| unknown(error.to_string()))?;
                Self::of(wcs, image)
            }
            found => found,
        }
        .map_err(|refused| match refused {
            Refused::OtherAxes => unknown("it has axes that are not understood".into()),
            Refused::Image(error) => error,
        })
    }

    fn of(wcs: Wcs, image: &ImageDescription) -> Result<Self, Refused> {
        let description = wcs.description();
        let Some(celestial) = description.celestial_projection else {
            let named: Vec<_> =
                description.axes.iter().map(|axis| axis.ctype.trim()).filter(|name| !name.is_empty()).collect();
            let reason =
                if named.is_empty() { "no WCS".to_owned() } else { format!("its axes are {}", named.join(", ")) };
            return Err(Refused::Image(ImageError::NoSky(reason)));
        };
        let axes = [celestial.longitude_axis, celestial.latitude_axis];
        let along = |axis: usize| image.shape.get(axis).copied();
        let (Some(width), Some(height)) = (along(axes[0]), along(axes[1])) else {
            return Err(Refused::Image(ImageError::NoSky("its axes on the sky have no pixels".into())));
        };
        let frame = frame(&description, axes[0]).map_err(Refused::Image)?;
        let reference_pixel: Vec<f64> = description.axes.iter().map(|axis| axis.crpix).collect();
        let mut reference_world = vec![0.0; reference_pixel.len()];
        if reference_pixel.len() > 2 {
            wcs.pixel_to_world(&reference_pixel, &mut reference_world).map_err(|_| Refused::OtherAxes)?;
        }
        Ok(Self { wcs, frame, axes, pixels: [width, height], reference_pixel, reference_world })
    }
}

impl SkyMap for WcsMap {
    fn sky_axes(&self) -> [usize; 2] {
        self.axes
    }

    fn pixels(&self) -> [u64; 2] {
        self.pixels
    }

    fn position(&self, place: PixelPosition) -> Option<SkyPosition> {
        let (longitude, latitude) = if let ([0, 1], 2) = (self.axes, self.reference_pixel.len()) {
            let mut world = [0.0; 2];
            self.wcs.pixel_to_world(&[place.x, place.y], &mut world).ok()?;
            (world[0], world[1])
        } else {
            let mut pixel = self.reference_pixel.clone();
            (pixel[self.axes[0]], pixel[self.axes[1]]) = (place.x, place.y);
            let mut world = vec![0.0; pixel.len()];
            self.wcs.pixel_to_world(&pixel, &mut world).ok()?;
            (world[self.axes[0]], world[self.axes[1]])
        };
        (longitude.is_finite() && latitude.is_finite()).then(|| self.frame.to_icrs(longitude, latitude))
    }

    fn place(&self, position: SkyPosition) -> Option<PixelPosition> {
        let (longitude, latitude) = self.frame.from_icrs(position);
        let mut world = self.reference_world.clone();
        (world[self.axes[0]], world[self.axes[1]]) = (longitude, latitude);
        let mut pixel = vec![0.0; world.len()];
        self.wcs.world_to_pixel(&world, &mut pixel).ok()?;
        let place = PixelPosition { x: pixel[self.axes[0]], y: pixel[self.axes[1]] };
        (place.x.is_finite() && place.y.is_finite()).then_some(place)
    }
}

/// Why a WCS cannot be used.
enum Refused {
    /// An axis beside those on the sky is not evaluated.
    OtherAxes,
    Image(ImageError),
}

/// The frame of the coordinates, by the name of an axis and by `RADESYS` and `EQUINOX`.
fn frame(description: &Description<'_>, longitude_axis: usize) -> Result<SkyFrame, ImageError> {
    let ctype = &description.axes[longitude_axis].ctype;
    let head = ctype.split('-').next().unwrap_or_default().trim();
    match head {
        "GLON" | "GLAT" => return Ok(SkyFrame::galactic()),
        "ELON" | "ELAT" => return Ok(SkyFrame::ecliptic()),
        "RA" | "DEC" => {}
        other => return Err(ImageError::NoSky(format!("coordinates along `{other}` are not known"))),
    }
    let Some(declared) = description.celestial_frame else { return Ok(SkyFrame::ICRS) };
    match &declared.reference_frame {
        CelestialReferenceFrame::Icrs => Ok(SkyFrame::ICRS),
        CelestialReferenceFrame::Fk5 => Ok(SkyFrame::fk5(declared.equinox.unwrap_or(2000.0))),
        CelestialReferenceFrame::Fk4 => SkyFrame::fk4(declared.equinox.unwrap_or(1950.0), true),
        CelestialReferenceFrame::Fk4NoE => SkyFrame::fk4(declared.equinox.unwrap_or(1950.0), false),
        CelestialReferenceFrame::Gappt => Err(ImageError::NoSky("its positions are apparent ones".into())),
        CelestialReferenceFrame::Other(name) => Err(ImageError::NoSky(format!("the frame `{name}` is not known"))),
    }
}

/// The same header with its first two axes alone.
fn of_two_axes(mut header: Header) -> Header {
    let names: Vec<String> =
        header.iter().filter_map(|record| record.keyword()).map(|keyword| keyword.as_str().to_owned()).collect();
    for name in names {
        if is_of_later_axis(&name) {
            // A keyword that is there can be removed.
            let _ = header.remove_all(name.as_str());
        }
    }
    let _ = header.set("WCSAXES", 2_i64);
    let _ = header.set("NAXIS", 2_i64);
    header
}

/// Whether a WCS keyword belongs to the third axis or a later one: `CRPIX3`, `PC1_3`, `CD4_1`, `PS3_0`.
fn is_of_later_axis(name: &str) -> bool {
    const ROOTS: [&str; 13] =
        ["CTYPE", "CUNIT", "CRVAL", "CRPIX", "CDELT", "CROTA", "CNAME", "CRDER", "CSYER", "PC", "CD", "PV", "PS"];
    ROOTS.iter().filter_map(|root| name.strip_prefix(root)).any(|axes| {
        let both = axes.starts_with(|c: char| c.is_ascii_digit()) && (name.starts_with("PC") || name.starts_with("CD"));
        let mut numbers = axes.split('_').map(|number| number.parse::<u32>().ok());
        let (first, second) = (numbers.next().flatten(), numbers.next().flatten());
        first.is_some_and(|axis| axis > 2) || (both && second.is_some_and(|axis| axis > 2))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_of_later_axes_are_told_from_others() {
        for name in ["CRPIX3", "CTYPE4", "PC1_3", "CD4_1", "PS3_0", "PV3_1"] {
            assert!(is_of_later_axis(name), "{name}");
        }
        for name in ["CRPIX1", "PV1_5", "PV2_39", "CD1_2", "CDELT2", "A_3_0", "PCOUNT", "CRPIX1A", "CREATOR"] {
            assert!(!is_of_later_axis(name), "{name}");
        }
    }
}
