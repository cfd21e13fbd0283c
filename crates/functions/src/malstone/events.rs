//! `malstone_events`: the cheaper variant of MalStone, which counts records and flagged records of each site instead of
//! visitors. Serves `sector oct malstone --per-event`. It never knows entities.

use udf::{FunctionError, Input, Output};

use super::{
    entities::weeks_by,
    ids::Ids,
    partial::{Cell, PartialWriter},
    record::read_events,
    time::{Period, WEEK_MICROS},
    visits::OUTSIDE,
};

/// Emits the counts of a segment, by the ranges of sites. Parameters as `malstone_entities`.
pub(crate) fn malstone_events(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let period = Period::of(input)?;
    let mut writer = PartialWriter::new(input)?;
    let weeks = weeks_by(input, &period)?;
    let (mut sites, mut weeks_of_sites) = (Ids::new(), Ids::new());
    let mut counts: Vec<(u64, u64)> = Vec::new();
    let outside = read_events(input, &period, |time, event| {
        let week = if weeks.is_none() { 0 } else { time / WEEK_MICROS };
        let place = weeks_of_sites.number(u64::from(sites.number_of_small(event.site)) << 8 | week) as usize;
        if place == counts.len() {
            counts.push((0, 0));
        }
        counts[place].0 += 1;
        counts[place].1 += u64::from(event.flag);
        Ok(())
    })?;
    // In the order of the sites, then of the weeks.
    let site_of = |place: &u32| sites.keys()[(weeks_of_sites.keys()[*place as usize] >> 8) as usize];
    let week_of = |place: &u32| weeks_of_sites.keys()[*place as usize] as u8;
    let mut places: Vec<u32> = (0..counts.len() as u32).collect();
    places.sort_unstable_by_key(|place| (site_of(place), week_of(place)));
    for weeks in places.chunk_by(|a, b| site_of(a) == site_of(b)) {
        let cell = |place: &u32| (week_of(place), counts[*place as usize].0, counts[*place as usize].1);
        let cells: Vec<Cell> = weeks.iter().map(cell).collect();
        writer.add(site_of(&weeks[0]), &cells, output)?;
    }
    writer.emit(output)?;
    output.count(OUTSIDE, outside);
    Ok(())
}
