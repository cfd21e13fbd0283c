//! A row of the index. The names of the fields are those of the columns. It never holds a header as a whole.

use fits::{ImageError, sky::SkyPosition};
use serde::{Deserialize, Serialize};

use super::FileFacts;

/// An image of a file, or a file that has none and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageRow {
    /// `image`, or `cube` with a third axis; empty for a damaged file.
    pub dataproduct_type: Option<String>,
    /// 1: data in a standard format, of which nothing more is known.
    pub calib_level: i32,
    /// The folder's name.
    pub obs_collection: String,
    /// `OBSID` or `OBS_ID`, else the file's name.
    pub obs_id: String,
    /// The path and the number of the header: unique in a cloud.
    pub obs_publisher_did: String,
    /// Where it is.
    pub access_url: String,
    /// The media type.
    pub access_format: String,
    /// The file's size in kilobytes.
    pub access_estsize: i64,
    /// `OBJECT`.
    pub target_name: Option<String>,
    /// The centre's right ascension, ICRS, in degrees.
    pub s_ra: Option<f64>,
    /// Its declination.
    pub s_dec: Option<f64>,
    /// The diameter of the circle around the centre that has all of the image, in degrees.
    pub s_fov: Option<f64>,
    /// The outline: `POLYGON ICRS …`.
    pub s_region: Option<String>,
    /// The side of a pixel in arc seconds.
    pub s_pixel_scale: Option<f64>,
    /// Pixels along the first axis.
    pub s_xel1: Option<i64>,
    /// Pixels along the second one.
    pub s_xel2: Option<i64>,
    /// When the exposure began, a modified Julian date.
    pub t_min: Option<f64>,
    /// When it ended.
    pub t_max: Option<f64>,
    /// How long it was, in seconds.
    pub t_exptime: Option<f64>,
    /// The shortest wavelength in metres, if the filter is a known one.
    pub em_min: Option<f64>,
    /// The longest one.
    pub em_max: Option<f64>,
    /// `TELESCOP`.
    pub facility_name: Option<String>,
    /// `INSTRUME`.
    pub instrument_name: Option<String>,
    /// `FILTER`.
    pub filter: Option<String>,
    /// The file's path in the cloud.
    pub path: String,
    /// The BLAKE3 digest of the file's content.
    pub content: String,
    /// The number of the image's header in the file.
    pub hdu: i32,
    /// `EXTNAME`.
    pub extname: Option<String>,
    /// Bits of a pixel, negative for reals.
    pub bitpix: Option<i32>,
    /// `none`, `gzip`, or the algorithm that compressed the tiles.
    pub compression: Option<String>,
    /// Why there is nothing more: what is wrong with the file or the image.
    pub problem: Option<String>,
}

impl ImageRow {
    /// A file that cannot be read.
    pub fn damaged(file: &FileFacts, error: &ImageError) -> Self {
        Self { problem: Some(format!("{}: {error}", error.class())), ..Self::of_file(file, 0) }
    }

    /// What is known of an image by its file alone.
    pub(super) fn of_file(file: &FileFacts, hdu: usize) -> Self {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        Self {
            calib_level: 1,
            obs_collection: folder.rsplit('/').next().unwrap_or_default().to_owned(),
            obs_id: name.split('.').next().unwrap_or(name).to_owned(),
            obs_publisher_did: format!("{}#{hdu}", file.path),
            access_url: format!("sector:/{}", file.path),
            access_format: "application/fits".into(),
            access_estsize: i64::try_from(file.bytes.div_ceil(1_000)).unwrap_or(i64::MAX),
            path: file.path.clone(),
            content: file.content.clone(),
            hdu: i32::try_from(hdu).unwrap_or(i32::MAX),
            ..Self::default()
        }
    }

    /// The centre, if the image lies on the sky.
    pub fn centre(&self) -> Option<SkyPosition> {
        SkyPosition::new(self.s_ra?, self.s_dec?).ok()
    }
}
