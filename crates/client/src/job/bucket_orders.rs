//! Orders about buckets: filling them again, sealing, publishing, fetching. Each is one order to the bucket's node;
//! publishing also asks the master for a place first and for the commit afterwards. It never decides which order comes
//! next: the rules do.

use std::sync::Arc;

use protocol::{
    NodeId, Reason, RecordFraming, Refusal,
    message::{
        client_master::{Created, Entry},
        request::AbandonRequest,
        spe::{BucketId, DeliveryOrder, SealOrder, SpeReply, SpeRequest},
    },
};
use sphere::{Delivery, Event, OutputFolder, refused_by_node};

use super::{
    context::{Context, DriverEvent},
    refusals::{refusal, unavailable},
};
use crate::PutOptions;

/// Makes a bucket final.
pub(super) async fn seal(context: Arc<Context>, node: NodeId, order: SealOrder) -> DriverEvent {
    let bucket = order.bucket;
    match context.connections.ask(&node, &SpeRequest::Seal(order)).await {
        Ok(SpeReply::Sealed { bytes, order }) => DriverEvent::Event(Event::Sealed { bucket, bytes, order }),
        Ok(_) => refused(bucket, mismatch(&node)),
        Err(refusal) => refused(bucket, refused_by_node(refusal)),
    }
}

/// Has a node send again what it kept of an attempt's results.
pub(super) async fn deliver(context: Arc<Context>, delivery: Delivery) -> DriverEvent {
    let Delivery { node, attempt, locations: homes } = delivery;
    let place = |(number, home)| Ok((number, context.connections.bucket_place(&node, &home, true)?));
    let ordered = async {
        let places = homes.into_iter().map(place).collect::<Result<_, Refusal>>()?;
        context.connections.ask(&node, &SpeRequest::Deliver(DeliveryOrder { attempt, targets: places })).await
    };
    DriverEvent::Event(match ordered.await {
        Ok(SpeReply::Delivered) => Event::Delivered(attempt),
        Ok(_) => Event::DeliveryRefused { attempt, refusal: mismatch(&node) },
        Err(refusal) => Event::DeliveryRefused { attempt, refusal },
    })
}

/// Brings a bucket's bytes to this process.
pub(super) async fn fetch(context: Arc<Context>, node: NodeId, bucket: BucketId) -> DriverEvent {
    match context.connections.ask(&node, &SpeRequest::Fetch(bucket)).await {
        Ok(SpeReply::Bytes(bytes)) => DriverEvent::Fetched(bucket, bytes),
        Ok(_) => refused(bucket, mismatch(&node)),
        Err(refusal) => refused(bucket, refused_by_node(refusal)),
    }
}

/// Makes a bucket a file of the output.
pub(super) async fn publish(
    context: Arc<Context>,
    node: NodeId,
    bucket: BucketId,
    records: RecordFraming,
) -> DriverEvent {
    let published = match &context.folder {
        Some(folder) => publish_in(&context, folder, &node, bucket, records).await,
        None => Err(Refusal::new(Reason::Failed, "the job has no output folder")),
    };
    match published {
        Ok(entry) => DriverEvent::Published(bucket, Box::new(entry)),
        Err(refusal) => refused(bucket, refusal),
    }
}

async fn publish_in(
    context: &Context,
    folder: &OutputFolder,
    node: &NodeId,
    bucket: BucketId,
    records: RecordFraming,
) -> Result<Entry, Refusal> {
    let path = folder.part(context.job, bucket.epoch, bucket.bucket).map_err(|error| refusal(error.into()))?;
    let options = PutOptions {
        copies: context.copies,
        sync_copies: context.sync_copies,
        records,
        parents: true,
        at: Some(node.clone()),
        ..PutOptions::default()
    };
    let created = context.client.create(&path, &options).await.map_err(refusal)?;
    let lease = created.lease;
    let published = tokio::select! {
        published = publish_under_lease(context, node, bucket, created) => published,
        // Syncing and copying a large bucket may outlast the lease.
        error = context.client.keep_lease_alive(lease) => Err(refusal(error)),
    };
    if published.is_err() {
        // Best effort: the lease expires by itself too.
        let _ = context.client.ask(AbandonRequest(lease)).await;
    }
    published
}

async fn publish_under_lease(
    context: &Context,
    node: &NodeId,
    bucket: BucketId,
    created: Created,
) -> Result<Entry, Refusal> {
    if created.target.node != *node {
        let other = created.target.node;
        let message = format!("the master wants bucket {} at node `{other}`, but it lies at `{node}`", bucket.bucket);
        return Err(Refusal::new(Reason::Failed, message));
    }
    let order = SpeRequest::Publish { bucket, ticket: created.target.ticket };
    match context.connections.ask(node, &order).await.map_err(refused_by_node)? {
        SpeReply::Published { bytes, digest } => {
            context.client.commit(created.lease, bytes, digest, false).await.map_err(refusal)
        }
        _ => Err(mismatch(node)),
    }
}

fn refused(bucket: BucketId, refusal: Refusal) -> DriverEvent {
    DriverEvent::Event(Event::BucketRefused { bucket, refusal })
}

fn mismatch(node: &NodeId) -> Refusal {
    unavailable(node, "it answered an order to a bucket with something else")
}
