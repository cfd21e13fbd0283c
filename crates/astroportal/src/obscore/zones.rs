//! Which slice of the index an image is in. Slice 0 has all that lie nowhere or are large, the others have a zone of
//! declination each. So a search opens few slices. It never depends on what else is in the index.

use super::ImageRow;

/// The slice of a row, among so many.
pub fn index_zone(row: &ImageRow, slices: u32) -> u64 {
    let (Some(dec_degrees), Some(diameter_degrees)) = (row.s_dec, row.s_fov) else { return 0 };
    if diameter_degrees > LARGE_DEGREES || slices < 2 {
        return 0;
    }
    zone(dec_degrees, slices)
}

/// The slices that may have an image within `radius_degrees` of a declination.
pub fn zones_near(dec_degrees: f64, radius_degrees: f64, slices: u32) -> Vec<u64> {
    if slices < 2 {
        return vec![0];
    }
    let reach = radius_degrees + LARGE_DEGREES / 2.0;
    std::iter::once(0).chain(zone(dec_degrees - reach, slices)..=zone(dec_degrees + reach, slices)).collect()
}

/// Zones count from 1, from the south.
fn zone(dec_degrees: f64, slices: u32) -> u64 {
    let zones = f64::from(slices - 1);
    let share = ((dec_degrees + 90.0) / 180.0).clamp(0.0, 1.0);
    1 + (share * zones).floor().min(zones - 1.0) as u64
}

/// Images of a larger diameter are in slice 0.
const LARGE_DEGREES: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_in_a_slice_that_a_search_near_it_opens() {
        for slices in [1, 2, 5, 64] {
            for dec in -90..=90 {
                for diameter in [0.1, 4.9, 5.1, 360.0] {
                    let dec = f64::from(dec);
                    let row = ImageRow { s_dec: Some(dec), s_fov: Some(diameter), ..ImageRow::default() };
                    let slice = index_zone(&row, slices);
                    assert!(slice < u64::from(slices));
                    for asked in [dec - diameter / 2.0, dec + diameter / 2.0] {
                        let opened = zones_near(asked.clamp(-90.0, 90.0), 0.0, slices);
                        assert!(opened.contains(&slice), "{dec} {diameter} {slices}");
                    }
                }
            }
        }
        assert_eq!(zones_near(0.0, 1.0, 64), [0, 31, 32, 33]);
        assert_eq!(index_zone(&ImageRow::default(), 64), 0);
    }
}
