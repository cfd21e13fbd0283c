//! A table of tuples as people give it: with a heading, or the paper's five columns without one. A row that makes no
//! sense is an outcome of its own, and never the end of the others.

use std::collections::BTreeSet;

use astroportal::tuples::{ManifestRow, Tuple};
use csv::StringRecord;
use fits::{Extension, Section, Selection, sky::SkyPosition};
use terminal::Failure;

use crate::{nearest_images::PlacedTuple, table_rows::table_rows};

/// The tuples of a table, and those that make no sense.
#[derive(Debug, Default)]
pub(crate) struct TupleFile {
    pub(crate) tuples: Vec<Tuple>,
    /// Those of a table of positions, which names no images.
    pub(crate) placed: Vec<PlacedTuple>,
    pub(crate) refused: Vec<ManifestRow>,
}

impl TupleFile {
    /// Reads CSV, VOTable or Parquet.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let mut records = table_rows(bytes)?.peekable();
        let first = match records.peek() {
            None => return Err(Failure::usage("the table is empty")),
            Some(Ok(first)) => first.clone(),
            Some(Err(why)) => return Err(Failure::usage(format!("the table is no CSV: {why}"))),
        };
        let columns = match Columns::of(&first)? {
            Some(columns) => {
                records.next();
                columns
            }
            None => Columns::of_the_paper(),
        };
        let mut read = Self::default();
        let mut names = BTreeSet::new();
        for (number, record) in (1..).zip(records) {
            if number > TUPLES_MAX {
                return Err(Failure::usage(format!("the table has more than {TUPLES_MAX} rows: split it")));
            }
            match record.and_then(|record| columns.row(number, &record)) {
                Ok(mut row) => {
                    let name = match &mut row {
                        Row::Tuple(tuple) => &mut tuple.name,
                        Row::Placed(placed) => &mut placed.name,
                    };
                    if !names.insert(name.clone()) {
                        *name = format!("{number}-{name}");
                        names.insert(name.clone());
                    }
                    match row {
                        Row::Tuple(tuple) => read.tuples.push(tuple),
                        Row::Placed(placed) => read.placed.push(placed),
                    }
                }
                Err(why) => read.refused.push(bad_row(number, &why)),
            }
        }
        Ok(read)
    }
}

/// What a row asks for.
enum Row {
    Tuple(Tuple),
    Placed(PlacedTuple),
}

/// Which column has what, by its place.
#[derive(Debug, Default)]
struct Columns {
    /// Without one, the index says which image has a position.
    path: Option<usize>,
    layer: Option<usize>,
    name: Option<usize>,
    ext: Option<usize>,
    part: PartColumns,
}

#[derive(Debug, Default)]
enum PartColumns {
    #[default]
    None,
    Section(usize),
    Region(usize),
    /// x, y, height, width.
    Pixels([usize; 4]),
    /// Right ascension, declination, and the sides in arc minutes, if the table has them.
    Around([usize; 2], Option<[usize; 2]>),
}

impl Columns {
    /// The columns of a heading; `None` if the record is none.
    fn of(heading: &StringRecord) -> Result<Option<Self>, Failure> {
        let at =
            |names: &[&str]| heading.iter().position(|cell| names.iter().any(|name| cell.eq_ignore_ascii_case(name)));
        let path = at(&["path", "file"]);
        let position = at(&["ra"]).zip(at(&["dec"]));
        if path.is_none() && position.is_none() {
            return Ok(None);
        }
        let all = |names: [&[&str]; 4]| {
            let found: Vec<_> = names.iter().filter_map(|names| at(names)).collect();
            <[usize; 4]>::try_from(found).ok()
        };
        let sides =
            at(&["size"]).map(|size| [size, size]).or(at(&["width"]).zip(at(&["height"])).map(<[usize; 2]>::from));
        let around = || position.map(|(ra, dec)| PartColumns::Around([ra, dec], sides));
        let part = if path.is_none() {
            around().unwrap_or_default()
        } else if let Some(section) = at(&["section"]) {
            PartColumns::Section(section)
        } else if let Some(region) = at(&["region"]) {
            PartColumns::Region(region)
        } else if let Some(columns) = all([&["x"], &["y"], &["height"], &["width"]]) {
            PartColumns::Pixels(columns)
        } else if let Some(columns) = around() {
            columns
        } else {
            let message =
                "the heading says no part of an image: it needs x,y,height,width, or ra,dec, or section, or region";
            return Err(Failure::usage(message));
        };
        let layer = at(&["layer", "filter"]);
        Ok(Some(Self { path, layer, name: at(&["name"]), ext: at(&["ext"]), part }))
    }

    /// The paper's tuple: path, x, y, height, width.
    fn of_the_paper() -> Self {
        Self { path: Some(0), part: PartColumns::Pixels([1, 2, 3, 4]), ..Self::default() }
    }

    fn row(&self, number: u64, record: &StringRecord) -> Result<Row, String> {
        let cell = |at: usize| record.get(at).ok_or_else(|| format!("the row has no column {}", at + 1));
        let real = |at: usize| {
            let text = cell(at)?;
            text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(|| format!("`{text}` is no number"))
        };
        let whole = |at: usize| {
            let text = cell(at)?;
            text.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(|| format!("`{text}` are no pixels"))
        };
        let filled = |at: Option<usize>| at.and_then(|at| record.get(at)).filter(|text| !text.is_empty());
        let wrong = |error: fits::ImageError| error.to_string();
        let around = |[ra, dec]: [usize; 2], sides: Option<[usize; 2]>| {
            let position: SkyPosition = format!("{},{}", cell(ra)?, cell(dec)?).parse().map_err(wrong)?;
            let size = |at: usize| {
                real(at).and_then(|size| if size > 0.0 { Ok(size) } else { Err(format!("`{size}` is no size")) })
            };
            let size_arcmin = match sides {
                Some([width, height]) => (size(width)?, size(height)?),
                None => (SIZE_ARCMIN, SIZE_ARCMIN),
            };
            Ok::<_, String>((position, size_arcmin))
        };
        let name = filled(self.name).map_or_else(|| format!("{number:06}.fits"), file_name);
        let Some(path) = self.path else {
            let PartColumns::Around(position, sides) = self.part else { return Err(NO_PART.into()) };
            let (position, size_arcmin) = around(position, sides)?;
            let layer = filled(self.layer).map(Into::into);
            return Ok(Row::Placed(PlacedTuple { number, position, size_arcmin, layer, name }));
        };
        let path = protocol::SectorPath::parse(cell(path)?).map_err(|error| error.to_string())?;
        let extension: Option<Extension> = filled(self.ext)
            .map(|text| text.parse().map_err(|error: fits::ImageError| error.to_string()))
            .transpose()?;
        let selection = match &self.part {
            PartColumns::Section(at) => {
                let mut section: Section = cell(*at)?.parse().map_err(wrong)?;
                section.extension = section.extension.or(extension);
                Selection::Section(section)
            }
            PartColumns::Region(at) => Selection::Region { extension, region: cell(*at)?.parse().map_err(wrong)? },
            PartColumns::Pixels([x, y, height, width]) => {
                Selection::Pixels { extension, centre: (real(*x)?, real(*y)?), size: (whole(*width)?, whole(*height)?) }
            }
            PartColumns::Around(position, sides) => {
                let (position, size_arcmin) = around(*position, *sides)?;
                Selection::Around { extension, position, size_arcmin }
            }
            PartColumns::None => return Err(NO_PART.into()),
        };
        Ok(Row::Tuple(Tuple { number, path: path.to_string(), selection, name }))
    }
}

/// The name of a file in an archive: no folder, nothing that a shell or another system minds, and `.fits` at its end.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(NAME_CHARS_MAX).collect();
    let plain = plain.trim_start_matches(['.', '-']);
    if plain.ends_with(".fits") && plain.len() > 5 { plain.to_owned() } else { format!("{plain}.fits") }
}

fn bad_row(number: u64, why: &str) -> ManifestRow {
    let selection = Selection::Section(Section::default());
    let tuple = Tuple { number, path: String::new(), selection, name: String::new() };
    ManifestRow::refused(&tuple, "usage", why)
}

/// The sides of a cutout of which no size is said, in arc minutes.
pub(crate) const SIZE_ARCMIN: f64 = 1.0;
const NO_PART: &str = "the table says no part of an image";
/// Most rows: they are held in memory, some hundred bytes each.
const TUPLES_MAX: u64 = 2_000_000;
/// Longest name of a file without its ending.
const NAME_CHARS_MAX: usize = 80;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<u64>) {
        let TupleFile { tuples, refused, .. } = TupleFile::read(text.as_bytes()).unwrap();
        let texts =
            tuples.iter().map(|Tuple { number, path, selection, name }| format!("{number} {path} {selection} {name}"));
        (texts.collect(), refused.iter().map(|outcome| outcome.tuple).collect())
    }

    #[test]
    fn the_papers_tuples_need_no_heading() {
        let (tuples, refused) = read("/sky/a.fits,768,1024,100,50\n/b,1,2,3\n");
        assert_eq!((tuples, refused), (vec!["1 /sky/a.fits PIXELS 768 1024 50 100 000001.fits".into()], vec![2]));
    }

    #[test]
    fn a_heading_says_what_the_columns_are() {
        let (tuples, _) = read("name,File,ra,dec,size,ext\nm 51,/a,202.5,47.2,2,SCI\n,/b,1,2,3,\n");
        assert_eq!(tuples, ["1 /a [SCI] AROUND 202.5 47.2 2 2 m_51.fits", "2 /b AROUND 1 2 3 3 000002.fits"]);
        let (tuples, _) = read("path,section,ext\n/a,\"[1:2,3:4]\",2\n");
        assert_eq!(tuples, ["1 /a [2][1:2,3:4] 000001.fits"]);
        let (tuples, refused) = read("path,region\n/a,CIRCLE 1 2 3\n/a,BOX 1\nno path,CIRCLE 1 2 3\n");
        assert_eq!((tuples.len(), refused), (1, vec![2, 3]));
        assert!(TupleFile::read(&b"path,what\n/a,1\n"[..]).is_err() && TupleFile::read(&b""[..]).is_err());
    }

    #[test]
    fn a_table_of_positions_names_no_images() {
        let text = "name,RA,Dec,filter\nm51,13:29:52.7,+47:11:43,r\n,202.5,47.2,\n,361,0,\n,1,91,\n";
        let TupleFile { tuples, placed, refused } = TupleFile::read(text.as_bytes()).unwrap();
        assert!(tuples.is_empty());
        let texts: Vec<_> = placed
            .iter()
            .map(|placed| {
                format!("{} {:.4} {:?} {}", placed.number, placed.position.ra_degrees, placed.layer, placed.name)
            })
            .collect();
        let first = "1 202.4696 Some(\"r\") m51.fits";
        assert_eq!((texts[0].as_str(), texts[1].as_str()), (first, "2 202.5000 None 000002.fits"));
        assert_eq!(placed[0].size_arcmin, (1.0, 1.0));
        assert_eq!(refused.last().map(|row| row.tuple), Some(4));
        let sized = TupleFile::read(&b"ra,dec,width,height\n1,2,3,4\n1,2,0,4\n"[..]).unwrap();
        assert_eq!((sized.placed[0].size_arcmin, sized.refused.len()), ((3.0, 4.0), 1));
    }

    #[test]
    fn names_are_plain_and_never_meet() {
        let (tuples, _) = read("path,section,name\n/a,[1:1],../x\n/a,[1:1],../x\n/a,[1:1],a.fits\n");
        let names: Vec<_> = tuples.iter().map(|tuple| tuple.rsplit(' ').next().unwrap()).collect();
        assert_eq!(names, ["_x.fits", "2-_x.fits", "a.fits"]);
    }
}
