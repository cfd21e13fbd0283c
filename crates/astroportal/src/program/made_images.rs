//! The images of a measurement, in a folder of the cloud that goes with it. It never touches another folder.

use std::io::Cursor;

use client::{Client, PutOptions, SectorPath};
use fits::{MadeImage, sky::SkyPosition};
use terminal::Failure;
use tokio::task::spawn_blocking;

/// Pixels of an image, as in the AstroPortal report (3.1): frames of SDSS.
pub(crate) const WIDTH: u32 = 1_536;
pub(crate) const HEIGHT: u32 = 2_048;

/// Writes images, one after another, and gives their paths.
pub(crate) async fn make(
    cloud: &Client,
    folder: &SectorPath,
    images: u32,
    is_rice: bool,
) -> Result<Vec<SectorPath>, Failure> {
    let mut paths = Vec::new();
    for number in 0..images {
        let centre = SkyPosition { ra_degrees: f64::from(number % 360), dec_degrees: f64::from(number % 120) - 60.0 };
        let image = MadeImage { width: WIDTH, height: HEIGHT, seed: u64::from(number), centre, is_rice };
        let bytes = spawn_blocking(move || image.fits()).await.map_err(|error| Failure::failed(error.to_string()))?;
        let bytes = bytes.map_err(|error| Failure::failed(error.to_string()))?;
        let path = folder.join(&format!("{}-{number:05}.fits", if is_rice { "rice" } else { "plain" }))?;
        let options = PutOptions { parents: true, copies: Some(1), sync_copies: Some(1), ..PutOptions::default() };
        cloud.put(Cursor::new(bytes), &path, &options, &|_| ()).await?;
        paths.push(path);
    }
    Ok(paths)
}
