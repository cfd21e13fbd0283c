//! `malstone_entities`: MalStone's second stage, which has all records of some entities. It finds out for each site
//! who visited it and who was flagged at or after that, and counts. Serves `sector oct malstone`. It never sees two
//! parts of one entity.

use udf::{FunctionError, Input, Output};

use super::{
    ids::Ids,
    partial::{Cell, PartialWriter},
    time::{Period, WEEK_MICROS},
    visits::{Visit, lanes_of, read_visits},
};

/// Emits what the bucket's entities add to each site, by the ranges of sites. Parameters `by` (`total` or `week`),
/// `start`, `days`, `cuts`.
pub(crate) fn malstone_entities(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let period = Period::of(input)?;
    let mut writer = PartialWriter::new(input)?;
    let weeks = weeks_by(input, &period)?;
    match weeks {
        Some(weeks) => emit_weeks(input, weeks, &mut writer, output)?,
        None => emit_totals(input, &mut writer, output)?,
    }
    writer.emit(output)
}

/// How many weeks are told apart; `None` where the whole period counts.
pub(crate) fn weeks_by(input: &Input<'_>, period: &Period) -> Result<Option<usize>, FunctionError> {
    match input.required_parameter("by")? {
        "total" => Ok(None),
        "week" => Ok(Some(period.weeks())),
        other => Err(FunctionError::new(format!("the parameter `by` must be `total` or `week`, not `{other}`"))),
    }
}

fn emit_totals(input: &Input<'_>, writer: &mut PartialWriter, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let mut totals: Vec<(u64, u64)> = Vec::new();
    let sites = first_visits::<false>(input, 1, output, |site, _, marked| {
        if site as usize >= totals.len() {
            totals.resize(site as usize + 1, (0, 0));
        }
        totals[site as usize].0 += 1;
        totals[site as usize].1 += u64::from(marked != NEVER);
    })?;
    for site in sites.sorted() {
        let (visitors, marked) = totals[site as usize];
        writer.add(sites.keys()[site as usize], &[(0, visitors, marked)], output)?;
    }
    Ok(())
}

/// Counts by week. The weeks of a site's visitors are put together first. A table of all sites and weeks would not fit
/// the cache, nor, with many sites, the memory.
fn emit_weeks(
    input: &Input<'_>,
    weeks: usize,
    writer: &mut PartialWriter,
    output: &mut Output<'_>,
) -> Result<(), FunctionError> {
    let mut found: Vec<(u32, u8, u8)> = Vec::new();
    let sites = first_visits::<true>(input, weeks, output, |site, week, marked| found.push((site, week, marked)))?;
    let mut ends = vec![0u32; sites.keys().len()];
    for (site, _, _) in &found {
        ends[*site as usize] += 1;
    }
    starts(&mut ends);
    let mut by_site = vec![(0u8, 0u8); found.len()];
    for (site, week, marked) in found {
        let end = &mut ends[site as usize];
        by_site[*end as usize] = (week, marked);
        *end += 1;
    }
    let mut counts = [(0, 0); NEVER as usize + 1];
    let mut cells: Vec<Cell> = Vec::new();
    for site in sites.sorted() {
        let place = site as usize;
        let start = if place == 0 { 0 } else { ends[place - 1] };
        for (week, marked) in &by_site[start as usize..ends[place] as usize] {
            counts[usize::from(*week)].0 += 1;
            counts[usize::from(*marked)].1 += 1;
        }
        cells.clear();
        for (week, (visitors, marked)) in (0..).zip(&counts[..weeks]) {
            if *visitors + *marked > 0 {
                cells.push((week, *visitors, *marked));
            }
        }
        counts[..weeks].fill((0, 0));
        writer.add(sites.keys()[place], &cells, output)?;
    }
    Ok(())
}

/// Calls `each` once for each entity and site that it visited, with the site and the week of the first visit. The last
/// argument is the week in which the entity was first flagged at or after that visit, or [`NEVER`]. Returns the numbers
/// of the sites.
fn first_visits<const BY_WEEK: bool>(
    input: &Input<'_>,
    weeks: usize,
    output: &mut Output<'_>,
    mut each: impl FnMut(u32, u8, u8),
) -> Result<Ids, FunctionError> {
    let mut sites = Ids::new();
    let mut grouped = Grouped::new();
    let mut firsts = Firsts::<BY_WEEK>::new(weeks);
    let mut done = 0;
    for chunks in lanes_of(input.bytes())? {
        grouped.read(&chunks, &mut sites)?;
        firsts.seen.resize(sites.keys().len(), (u32::MAX, 0));
        let mut start = 0;
        for end in &grouped.ends {
            firsts.of_entity(&grouped.visits[start..*end as usize], &mut each);
            start = *end as usize;
        }
        done += chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        output.progress(done);
    }
    Ok(sites)
}

/// The visits of a lane, grouped by entity.
struct Grouped {
    entities: Ids,
    read: Vec<SiteVisit>,
    visits: Vec<SiteVisit>,
    /// Where each entity's visits end.
    ends: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct SiteVisit {
    /// As in [`Visit`].
    stamp: u64,
    /// The site's number among the bucket's.
    site: u32,
    /// The entity's among the lane's.
    entity: u32,
}

impl Grouped {
    fn new() -> Self {
        Self { entities: Ids::new(), read: Vec::new(), visits: Vec::new(), ends: Vec::new() }
    }

    fn read(&mut self, chunks: &[&[u8]], sites: &mut Ids) -> Result<(), FunctionError> {
        let Self { entities, read, visits, ends } = self;
        entities.clear();
        read.clear();
        ends.clear();
        for chunk in chunks {
            read_visits(chunk, |Visit { stamp, site, entity }| {
                let (site, entity) = (sites.number_of_small(site), entities.number(entity));
                if entity as usize == ends.len() {
                    ends.push(0);
                }
                ends[entity as usize] += 1;
                read.push(SiteVisit { stamp, site, entity });
            })?;
        }
        starts(ends);
        visits.resize(read.len(), SiteVisit::default());
        for visit in read {
            let end = &mut ends[visit.entity as usize];
            visits[*end as usize] = *visit;
            *end += 1;
        }
        Ok(())
    }
}

/// Makes counts into where each begins, from where it grows to where it ends.
fn starts(counts: &mut [u32]) {
    let mut start = 0;
    for count in counts {
        start += std::mem::replace(count, start);
    }
}

/// The first visits of one entity after the other.
struct Firsts<const BY_WEEK: bool> {
    /// For each site: which entity came last, and where in `firsts` it is.
    seen: Vec<(u32, u32)>,
    firsts: Vec<(u32, u64)>,
    /// For each week the last flag, plus one so that 0 is none.
    last_flags: Vec<u64>,
    /// The next week from a week on that has a flag, or [`NEVER`].
    next_flagged: Vec<u8>,
    entity: u32,
}

impl<const BY_WEEK: bool> Firsts<BY_WEEK> {
    fn new(weeks: usize) -> Self {
        let (last_flags, next_flagged) = (vec![0; weeks], vec![NEVER; weeks + 1]);
        Self { seen: Vec::new(), firsts: Vec::new(), last_flags, next_flagged, entity: 0 }
    }

    fn of_entity(&mut self, visits: &[SiteVisit], each: &mut impl FnMut(u32, u8, u8)) {
        let week_of = |micros: u64| if BY_WEEK { (micros / WEEK_MICROS) as usize } else { 0 };
        let Self { seen, firsts, last_flags, next_flagged, entity } = self;
        firsts.clear();
        let mut is_flagged = false;
        for visit in visits {
            let micros = visit.stamp >> 1;
            if visit.stamp & 1 == 1 {
                let last = &mut last_flags[week_of(micros)];
                *last = (micros + 1).max(*last);
                is_flagged = true;
            }
            let seen = &mut seen[visit.site as usize];
            if seen.0 == *entity {
                let first = &mut firsts[seen.1 as usize].1;
                *first = micros.min(*first);
            } else {
                *seen = (*entity, firsts.len() as u32);
                firsts.push((visit.site, micros));
            }
        }
        *entity += 1;
        if !is_flagged {
            firsts.iter().for_each(|(site, micros)| each(*site, week_of(*micros) as u8, NEVER));
            return;
        }
        for (week, last) in last_flags.iter().enumerate().rev() {
            next_flagged[week] = if *last > 0 { week as u8 } else { next_flagged[week + 1] };
        }
        for (site, micros) in firsts.iter() {
            let week = week_of(*micros);
            let marked = if last_flags[week] > *micros { week as u8 } else { next_flagged[week + 1] };
            each(*site, week as u8, marked);
        }
        last_flags.fill(0);
    }
}

/// The week of those who are not marked; a period has fewer weeks.
const NEVER: u8 = u8::MAX;
