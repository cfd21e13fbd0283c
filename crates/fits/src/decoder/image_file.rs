//! An open FITS file and its images. Opening reads the headers alone; reading a part of an image reads the bytes of that
//! part, or the tiles that it touches. It never holds more than [`MEMORY_BYTES_MAX`] for a read.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::{self, Read, Seek, SeekFrom},
    sync::{Arc, Mutex, PoisonError},
};

use fits_well::{FitsError, FitsReader, FitsWriter, header::Header, image::Region, io::StreamReader};

use super::{
    Compression, ImageDescription, Keywords, cut_header,
    wcs_map::WcsMap,
    whole_image::{DecodedPixels, WholeImage},
};
use crate::{ByteSource, Extension, ImageError, PixelBox, Provenance, byte_source::Window, gzip, sky::SkyMap};

/// An open file.
pub struct ImageFile<'a> {
    reader: StreamReader<SharedWindow<'a>>,
    window: SharedWindow<'a>,
    images: Vec<ImageDescription>,
    /// Samples of the last read, kept for their memory.
    words: Vec<u64>,
    /// What the next cutout of an image needs as well: its header as an extension and as a primary one, and its sky.
    headers: BTreeMap<(usize, bool), Header>,
    maps: BTreeMap<usize, Arc<WcsMap>>,
    /// Of images in tiles, how much was decoded, and all of one that was asked for so often.
    decoded: BTreeMap<usize, DecodedPixels>,
    whole: Option<(usize, WholeImage)>,
    is_gzip: bool,
}

impl<'a> ImageFile<'a> {
    /// Opens a file. One that is compressed by gzip is inflated, up to [`INFLATED_BYTES_MAX`].
    ///
    /// # Errors
    /// `Damaged` if it is no FITS file or its first header is broken, `TooLarge` for a bomb, `Read` if the source fails.
    pub fn open(source: impl ByteSource + 'a) -> Result<Self, ImageError> {
        let mut beginning = [0; 2];
        let is_short = source.bytes() < beginning.len() as u64;
        let mut window = Window::new(Box::new(source) as Box<dyn ByteSource + 'a>);
        if !is_short {
            // What is read ahead has the first header.
            window.read_exact(&mut beginning)?;
            window.rewind()?;
        }
        let is_gzip = gzip::is_gzip(&beginning);
        if is_gzip {
            window = Window::new(Box::new(gzip::inflate(window.into_source(), INFLATED_BYTES_MAX)?));
        }
        let window = SharedWindow(Arc::new(Mutex::new(window)));
        let reader = FitsReader::open(window.clone()).map_err(in_header)?;
        let images = reader.images().filter_map(|hdu| ImageDescription::of(hdu, is_gzip)).collect();
        Ok(Self {
            reader,
            window,
            images,
            words: Vec::new(),
            headers: BTreeMap::new(),
            maps: BTreeMap::new(),
            decoded: BTreeMap::new(),
            whole: None,
            is_gzip,
        })
    }

    /// The images, in the order of the file. Tables are none, and neither is an image whose header makes no sense.
    pub fn images(&self) -> &[ImageDescription] {
        &self.images
    }

    /// What is wrong with the headers behind the last good one, if anything is.
    pub fn header_defect(&self) -> Option<ImageError> {
        self.reader.scan_defect().map(|defect| ImageError::damaged("a header", defect))
    }

    /// Whether the file as a whole is compressed by gzip.
    pub fn is_gzip(&self) -> bool {
        self.is_gzip
    }

    /// The image of a number or name.
    ///
    /// # Errors
    /// `NoImage` if there is none.
    pub fn image(&self, extension: &Extension) -> Result<&ImageDescription, ImageError> {
        let found = self.images.iter().find(|image| match extension {
            Extension::Number(number) => image.hdu == *number,
            Extension::Name(name, version) => {
                let own = image.name.as_deref().unwrap_or(if image.hdu == 0 { "PRIMARY" } else { "" });
                own.eq_ignore_ascii_case(name) && version.is_none_or(|version| version == image.version)
            }
        });
        found.ok_or_else(|| ImageError::NoImage(format!("`{extension}`")))
    }

    /// The keywords of a header; of none if there is no such header.
    pub fn keywords(&self, hdu: usize) -> Option<Keywords<'_>> {
        self.reader.hdus().get(hdu).map(|hdu| Keywords::new(&hdu.header))
    }

    /// Where an image lies on the sky.
    ///
    /// # Errors
    /// `NoSky` if its header does not say so.
    pub fn sky_map(&mut self, image: &ImageDescription) -> Result<Arc<dyn SkyMap + Send + Sync>, ImageError> {
        if let Some(map) = self.maps.get(&image.hdu) {
            return Ok(Arc::<WcsMap>::clone(map));
        }
        self.expect_anything();
        let map = Arc::new(WcsMap::read(&mut self.reader, image)?);
        self.maps.insert(image.hdu, Arc::clone(&map));
        Ok(map)
    }

    /// The physical values of a part of an image, the fastest axis first; undefined ones are not a number.
    ///
    /// # Errors
    /// As [`write_fits`](Self::write_fits).
    pub fn values(&mut self, hdu: usize, part: &PixelBox) -> Result<Vec<f32>, ImageError> {
        self.prepare(hdu, part)?;
        let mut values = Vec::new();
        let mut image = self.reader.image(hdu).map_err(in_pixels)?;
        image.physical_into(&part.ranges()[..], &mut values).map_err(in_pixels)?;
        Ok(values)
    }

    /// A FITS file with parts of images: of one image as the primary one, of several as extensions behind a primary
    /// header without pixels. Pixels are those of the file, bit for bit; `CHECKSUM` and `DATASUM` are new.
    ///
    /// # Errors
    /// - `Usage` if a part lies outside of its image.
    /// - `TooLarge` for more than [`MEMORY_BYTES_MAX`].
    /// - `Damaged` if the file does not hold the pixels that its header promises.
    /// - `Read` if the source fails.
    pub fn write_fits(&mut self, parts: &[(usize, PixelBox)], provenance: &Provenance) -> Result<Vec<u8>, ImageError> {
        let mut writer = FitsWriter::new(Vec::with_capacity(FITS_BYTES_USUAL)).with_checksums();
        let is_one = parts.len() == 1;
        if !is_one {
            let primary = cut_header::of_primary(&self.reader.hdus()[0].header);
            writer.write_empty_primary(Some(&primary)).map_err(in_output)?;
        }
        for (hdu, part) in parts {
            self.prepare(*hdu, part)?;
            let header = self.header_of_part(*hdu, part, is_one, provenance)?;
            if let Some((_, whole)) = self.whole.as_ref().filter(|(kept, _)| kept == hdu) {
                let samples = whole.part(&part.ranges());
                writer.write_image(samples.view().map_err(in_pixels)?, Some(&header)).map_err(in_output)?;
                continue;
            }
            let mut image = self.reader.image(*hdu).map_err(in_pixels)?;
            let samples = image.view(&part.ranges()[..], &mut self.words).map_err(in_pixels)?;
            writer.write_image(samples, Some(&header)).map_err(in_output)?;
        }
        Ok(writer.into_inner())
    }

    fn header_of_part(
        &mut self,
        hdu: usize,
        part: &PixelBox,
        as_primary: bool,
        provenance: &Provenance,
    ) -> Result<Header, ImageError> {
        let of_image = match self.headers.entry((hdu, as_primary)) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => {
                let hdus = self.reader.hdus();
                let primary = (as_primary && hdu > 0).then(|| &hdus[0].header);
                place.insert(cut_header::of_image(&hdus[hdu].header, primary).map_err(in_output)?)
            }
        };
        cut_header::of_part(of_image, part, &provenance.lines(hdu, part)).map_err(in_output)
    }

    /// Checks a part against its image and the limits, and tells the source what will be read.
    fn prepare(&mut self, hdu: usize, part: &PixelBox) -> Result<(), ImageError> {
        let image = self.image(&Extension::Number(hdu))?;
        let fits = part.axes().len() == image.shape.len()
            && part.axes().iter().zip(&image.shape).all(|((_, last), length)| last <= length);
        if !fits {
            return Err(ImageError::Usage(format!("{part} is no part of an image of {:?} pixels", image.shape)));
        }
        let pixel_bytes = image.bitpix.unsigned_abs() / 8;
        let shape = part.shape();
        let bytes = shape.iter().try_fold(pixel_bytes, |bytes, axis| bytes.checked_mul(*axis)).unwrap_or(u64::MAX);
        ImageError::check_bytes("the cutout", bytes, MEMORY_BYTES_MAX)?;
        if matches!(image.compression, Compression::Tiles(_)) {
            let image = image.clone();
            return self.prepare_tiles(&image, part);
        }
        let (width, row_pixels) = (shape.first().copied().unwrap_or(1), image.shape.first().copied().unwrap_or(1));
        let (rows, planes) = (shape.get(1).copied().unwrap_or(1), shape.iter().skip(2).product());
        self.window.lock().expect_runs(planes, rows, width * pixel_bytes, row_pixels * pixel_bytes);
        Ok(())
    }

    /// Checks what the tiles of a part take. Once as many pixels were decoded as the image has, all of it is kept.
    fn prepare_tiles(&mut self, image: &ImageDescription, part: &PixelBox) -> Result<(), ImageError> {
        if self.whole.as_ref().is_some_and(|(kept, _)| *kept == image.hdu) {
            return Ok(());
        }
        self.expect_anything();
        let is_often = self.decoded.entry(image.hdu).or_default().add(image, &part.shape());
        let mut reader = self.reader.image(image.hdu).map_err(in_pixels)?;
        let ranges = part.ranges();
        let region = if is_often { Region::All } else { Region::Section(&ranges) };
        let held = reader.view_bytes([region]).map_err(in_pixels)?;
        ImageError::check_bytes("decompressing", held.kept.saturating_add(held.handle), MEMORY_BYTES_MAX)?;
        if is_often {
            self.whole = Some((image.hdu, WholeImage::new(reader.read(..).map_err(in_pixels)?)));
        }
        Ok(())
    }

    fn expect_anything(&self) {
        self.window.lock().expect_anything();
    }
}

impl std::fmt::Debug for ImageFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageFile").field("images", &self.images).finish_non_exhaustive()
    }
}

/// The stream that the library reads, which we tell what comes next.
#[derive(Clone, Debug)]
struct SharedWindow<'a>(Arc<Mutex<Window<'a>>>);

impl<'a> SharedWindow<'a> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Window<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for SharedWindow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buffer)
    }
}

impl Seek for SharedWindow<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.lock().seek(to)
    }
}

fn in_header(error: FitsError) -> ImageError {
    translate("the header", error)
}

pub(super) fn in_pixels(error: FitsError) -> ImageError {
    translate("the pixels", error)
}

fn in_output(error: FitsError) -> ImageError {
    translate("the cutout's header", error)
}

/// An error of the source is its own; all else that a library says of a file is damage.
fn translate(what: &'static str, error: FitsError) -> ImageError {
    match error {
        FitsError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => ImageError::Read(error),
        FitsError::UnexpectedEof | FitsError::Io(_) => ImageError::damaged(what, "the file ends too early"),
        error => ImageError::damaged(what, error),
    }
}

/// Most bytes of pixels, and of memory to decompress them, that one read may take: a hundred million pixels.
pub(crate) const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Most bytes of a file that is compressed as a whole.
pub(crate) const INFLATED_BYTES_MAX: u64 = 1 << 30;
/// What most cutouts take.
const FITS_BYTES_USUAL: usize = 64 * 1024;
