//! What the node counts, read at the moment of the question. Serves `sector metrics`. It never changes anything, and
//! the rules know nothing of it.

use daemon::metrics::{Readings, definitions as metric};
use net::messenger::Messenger;
use protocol::{
    disk::{DiskState, DiskStatus},
    message::{load::LoadMetric, work::WorkItem},
};

use crate::node_context::NodeContext;

/// All that the node counts, as text. `disks` were measured off the network's threads.
pub(super) fn text(
    context: &NodeContext,
    messenger: &Messenger,
    work: &[WorkItem],
    slices: u64,
    disks: &[DiskStatus],
) -> String {
    let mut readings = Readings::default();
    for (carrier, sent, received) in context.peers.connections.carried.by_carrier() {
        readings.set_of(&metric::NODE_CARRIED, &[carrier, "sent"], sent);
        readings.set_of(&metric::NODE_CARRIED, &[carrier, "received"], received);
    }
    readings.set(&metric::NODE_TRANSFERS, u64::from(context.limits.transfers_running.value()));
    readings.set(&metric::NODE_SPES, u64::from(context.spes.running.value()));
    readings.set(&metric::NODE_SLICES, slices);
    read_disks(disks, &mut readings);
    readings.declare(&metric::NODE_TICKETS_REFUSED);
    for (fault, count) in context.tickets.refused() {
        readings.set_of(&metric::NODE_TICKETS_REFUSED, &[fault.as_str()], count);
    }
    read_load(context, &mut readings);
    read_links(context, &mut readings);
    readings.set_work(work);
    let counters = messenger.counts();
    readings.set_of(&metric::GMP_MESSAGES, &["sent"], counters.messages_sent);
    readings.set_of(&metric::GMP_MESSAGES, &["received"], counters.messages_received);
    readings.set(&metric::GMP_DATAGRAMS_DROPPED, counters.datagrams_dropped);
    readings.set(&metric::GMP_DATAGRAMS_RETRANSMITTED, counters.datagrams_retransmitted);
    readings.encode()
}

fn read_disks(disks: &[DiskStatus], readings: &mut Readings) {
    for (state, name) in [(DiskState::Ok, "ok"), (DiskState::Failed, "failed"), (DiskState::Missing, "missing")] {
        let count = disks.iter().filter(|disk| disk.state == state).count() as u64;
        readings.set_of(&metric::NODE_DISKS, &[name], count);
    }
    let [used, free] = [&metric::NODE_DISK_USED, &metric::NODE_DISK_FREE];
    let [checked, total, corrupt] =
        [&metric::NODE_SCRUB_CHECKED, &metric::NODE_SCRUB_TOTAL, &metric::NODE_SCRUB_CORRUPT];
    [used, free, checked, total, corrupt].into_iter().for_each(|of_disks| readings.declare(of_disks));
    for (index, disk) in disks.iter().enumerate() {
        // By number: a folder's name may say more than an operator wants to show.
        let number = (index + 1).to_string();
        readings.set_of(used, &[number.as_str()], disk.used_bytes);
        readings.set_of(free, &[number.as_str()], disk.free_bytes);
        if let Some(scrub) = &disk.scrub {
            readings.set_of(checked, &[number.as_str()], scrub.checked_bytes);
            readings.set_of(total, &[number.as_str()], scrub.total_bytes);
            readings.set_of(corrupt, &[number.as_str()], scrub.corrupt);
        }
    }
}

/// How busy the machine, the node and its disks were in the last second.
fn read_load(context: &NodeContext, readings: &mut Readings) {
    let all = [
        &metric::MACHINE_PROCESSOR,
        &metric::MACHINE_MEMORY,
        &metric::MACHINE_NETWORK,
        &metric::NODE_PROCESSOR,
        &metric::NODE_MEMORY,
        &metric::NODE_DISK_BYTES,
        &metric::NODE_DISK_BUSY,
        &metric::NODE_DISK_LATENCY,
        &metric::NODE_DISK_QUEUE,
    ];
    all.into_iter().for_each(|metric| readings.declare(metric));
    let Some((load, counters)) = context.load.last() else { return };
    let sample = load.samples.last().copied().unwrap_or_default();
    let ratio = |metric| sample.get(metric) as f64 / 1_000.0;
    readings.set_fraction_of(&metric::MACHINE_PROCESSOR, &[], ratio(LoadMetric::Processor));
    readings.set(&metric::MACHINE_MEMORY, sample.get(LoadMetric::Memory));
    readings.set_of(&metric::MACHINE_NETWORK, &["received"], counters.network_bytes.0);
    readings.set_of(&metric::MACHINE_NETWORK, &["sent"], counters.network_bytes.1);
    readings.set_fraction_of(&metric::NODE_PROCESSOR, &["node"], ratio(LoadMetric::NodeProcessor));
    readings.set_fraction_of(&metric::NODE_PROCESSOR, &["spes"], ratio(LoadMetric::SpeProcessor));
    readings.set_of(&metric::NODE_MEMORY, &["node"], sample.get(LoadMetric::NodeMemory));
    readings.set_of(&metric::NODE_MEMORY, &["spes"], sample.get(LoadMetric::SpeMemory));
    for (index, (disk, counted)) in load.disks.iter().zip(&counters.disks).enumerate() {
        let (Some(disk), Some(counted)) = (disk, counted) else { continue };
        let number = (index + 1).to_string();
        let label = [number.as_str()];
        readings.set_of(&metric::NODE_DISK_BYTES, &[&number, "read"], counted.read_bytes);
        readings.set_of(&metric::NODE_DISK_BYTES, &[&number, "written"], counted.written_bytes);
        readings.set_fraction_of(&metric::NODE_DISK_BUSY, &label, disk.busy_thousandths as f64 / 1_000.0);
        readings.set_fraction_of(&metric::NODE_DISK_LATENCY, &label, disk.latency_micros as f64 / 1_000_000.0);
        readings.set_fraction_of(&metric::NODE_DISK_QUEUE, &label, disk.queue_hundredths as f64 / 100.0);
    }
}

/// What went to and from each site, and what it met on its way.
fn read_links(context: &NodeContext, readings: &mut Readings) {
    let [bytes, packets] = [&metric::NODE_LINK_BYTES, &metric::NODE_LINK_PACKETS];
    let [retransmitted, round_trip] = [&metric::NODE_LINK_RETRANSMITTED, &metric::NODE_LINK_ROUND_TRIP];
    [bytes, packets, retransmitted, round_trip].into_iter().for_each(|metric| readings.declare(metric));
    for (site, totals) in context.peers.site_limiters.links.totals() {
        readings.set_of(bytes, &[&site, "sent"], totals.sent_bytes);
        readings.set_of(bytes, &[&site, "received"], totals.received_bytes);
        readings.set_of(packets, &[&site, "sent"], totals.transport.sent_packets);
        readings.set_of(packets, &[&site, "lost"], totals.transport.lost_packets);
        readings.set_of(retransmitted, &[&site], totals.transport.retransmitted_bytes);
    }
    for (site, micros) in context.links.round_trips() {
        readings.set_fraction_of(round_trip, &[&site], micros as f64 / 1_000_000.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use daemon::metrics::{METRICS, MetricRole};

    use super::*;
    use crate::transfer_server::tests::fixture;

    #[tokio::test]
    async fn a_node_counts_all_that_the_table_says_it_counts() {
        let made = fixture();
        let socket = net::datagram::bind_udp(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (messenger, _events) = Messenger::start(socket, made.clock);
        let text = text(&made.context, &messenger, &[], 0, &made.context.storage.slices.statuses());
        let named: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
        let is_named = |name: &str| named.iter().any(|line| line.starts_with(&format!("{name} ")));
        for metric in METRICS {
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            assert_eq!(is_named(name), metric.roles.contains(&MetricRole::Node), "{name}\n{text}");
        }
    }
}
