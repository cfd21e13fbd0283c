//! The parts that a sabotaged node leaves out when it reports its copy of the small rows to a master that lost its
//! journal. A node without sabotage never leaves anything out.

use std::time::Duration;

use protocol::{
    Acl,
    message::{node_master::Report, rebuild::MirrorRow},
    wire::codec,
};

use crate::{Sabotage, environment::Environment};

/// A page of small rows as it is reported.
pub(super) fn forgotten(env: &Environment, mut page: Report) -> Report {
    let Report::MirrorPage { rows, .. } = &mut page else { return page };
    let without = |table: &str, rows: &mut Vec<MirrorRow>| rows.retain(|row| row.table != table);
    match env.sabotage {
        Some(Sabotage::FoldersAreForgotten) => without("names", rows),
        Some(Sabotage::QuotasAreForgotten) => without("quotas", rows),
        Some(Sabotage::PoliciesAreForgotten) => without("policies", rows),
        Some(Sabotage::TrashIsForgotten) => without("trash", rows),
        Some(Sabotage::RightsAreForgotten) => {
            let folders = env.model.attributes.folders.iter();
            let said = folders.flat_map(|folder| folder.acl.between(Duration::ZERO, env.now.monotonic)).flatten();
            let said: Vec<_> = said.collect();
            rows.iter_mut().filter(|row| row.table == "names").for_each(|row| silence(row, &said));
        }
        _ => {}
    }
    page
}

/// Cuts one of these lists off the end of a row that has it.
fn silence(row: &mut MirrorRow, said: &[Acl]) {
    let Some(value) = row.value.as_mut().filter(|value| value.first() == Some(&WITH_RIGHTS)) else { return };
    // As in a row, but without the leading version.
    let encoded = said.iter().map(|acl| codec::encode(acl).split_off(1));
    if let Some(tail) = encoded.filter(|tail| value.ends_with(tail)).max_by_key(Vec::len) {
        value.truncate(value.len() - tail.len());
        value[0] = WITHOUT;
    }
}

/// First byte of a row with a list of rights, and of one without (`docs/formats-on-disk.md`).
const WITH_RIGHTS: u8 = 3;
const WITHOUT: u8 = 2;
