//! From an image's header to its row. It reads headers alone, and never a pixel.

use fits::{Compression, ImageDescription, ImageFile, Keywords, sky::footprint};

use super::{ImageRow, observation_time::mjd, passbands::passband};

/// What the cloud knows of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Its path.
    pub path: String,
    /// The digest of its content.
    pub content: String,
    /// Its length.
    pub bytes: u64,
}

/// The rows of a file: one for each image, and one for what is wrong with it.
pub fn describe(file: &mut ImageFile<'_>, of_file: &FileFacts) -> Vec<ImageRow> {
    let images = file.images().to_vec();
    let mut rows: Vec<_> = images.iter().map(|image| of_image(file, of_file, image)).collect();
    if let Some(defect) = file.header_defect() {
        rows.push(ImageRow::damaged(of_file, &defect));
    } else if rows.is_empty() {
        rows.push(ImageRow {
            problem: Some("no-image: the file has no image".into()),
            ..ImageRow::of_file(of_file, 0)
        });
    }
    rows
}

fn of_image(file: &mut ImageFile<'_>, of_file: &FileFacts, image: &ImageDescription) -> ImageRow {
    let mut row = ImageRow::of_file(of_file, image.hdu);
    let axis = |axis: usize| image.shape.get(axis).and_then(|pixels| i64::try_from(*pixels).ok());
    let is_cube = image.shape.iter().skip(2).any(|pixels| *pixels > 1);
    row.dataproduct_type = Some(if is_cube { "cube" } else { "image" }.into());
    (row.s_xel1, row.s_xel2) = (axis(0), axis(1));
    row.bitpix = i32::try_from(image.bitpix).ok();
    row.compression = Some(image.compression.name().to_owned());
    row.extname.clone_from(&image.name);
    if image.compression == Compression::Gzip {
        row.access_format = "application/fits+gzip".into();
    }
    match file.sky_map(image) {
        Ok(map) => {
            if let Some(found) = footprint(&*map) {
                (row.s_ra, row.s_dec) = (Some(found.centre.ra_degrees), Some(found.centre.dec_degrees));
                row.s_fov = Some(found.diameter_degrees);
                row.s_pixel_scale = Some(found.pixel_degrees * 3_600.0);
                let corner = |place: &fits::sky::SkyPosition| format!(" {} {}", place.ra_degrees, place.dec_degrees);
                let corners: String = found.corners.iter().map(corner).collect();
                row.s_region = (!corners.is_empty()).then(|| format!("POLYGON ICRS{corners}"));
            } else {
                row.problem = Some("no-sky: the middle of the image lies nowhere".into());
            }
        }
        Err(error) => row.problem = Some(format!("{}: {error}", error.class())),
    }
    if let Some(keywords) = file.keywords(image.hdu) {
        // What an extension does not say, the first header does.
        let either = [Some(keywords), file.keywords(0).filter(|_| image.hdu > 0)];
        add_observation(&mut row, &either);
    }
    row
}

fn add_observation(row: &mut ImageRow, headers: &[Option<Keywords<'_>>; 2]) {
    let text = |names: &[&str]| {
        let mut found = headers.iter().flatten().flat_map(|header| names.iter().filter_map(|name| header.text(name)));
        found.next().map(str::to_owned)
    };
    let real = |names: &[&str]| {
        let mut found = headers.iter().flatten().flat_map(|header| names.iter().filter_map(|name| header.real(name)));
        found.next()
    };
    row.target_name = text(&["OBJECT"]);
    row.facility_name = text(&["TELESCOP"]);
    row.instrument_name = text(&["INSTRUME"]);
    row.filter = text(&["FILTER", "BAND", "FILTER1"]);
    if let Some(id) = text(&["OBSID", "OBS_ID"]) {
        row.obs_id = id;
    }
    row.t_exptime = real(&["EXPTIME", "EXPOSURE"]).filter(|seconds| *seconds >= 0.0);
    row.t_min = real(&["MJD-OBS", "MJD-BEG"]).or_else(|| text(&["DATE-OBS", "DATE-BEG"]).as_deref().and_then(mjd));
    row.t_max = real(&["MJD-END"]).or_else(|| Some(row.t_min? + row.t_exptime? / 86_400.0));
    if let Some((shortest, longest)) = row.filter.as_deref().and_then(passband) {
        (row.em_min, row.em_max) = (Some(shortest), Some(longest));
    }
}
