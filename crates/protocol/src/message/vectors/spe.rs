//! Test vectors of the messages between a job's driver and an SPE. A vector never changes without a new codec version.

use super::{Vectors, address, bucket, counters, digest, node, path, refusal, signed, slice, source};
use crate::{
    JobId, Reason, RecordFraming, SideFileName, SliceId,
    message::spe::{
        AttemptId, BucketTarget, DeliveryOrder, FunctionCode, FunctionFailure, FunctionSpec, LoadOrder, ModuleFile,
        OutputPlacement, PartOrder, PieceResult, PrintedOutput, PythonCode, PythonFunction, RecordLocator, SealOrder,
        SegmentOrder, SegmentSource, SideFileOrder, SpeReply, SpeRequest, TaskOrder, TaskResult, Winner,
    },
    topology::Distance,
};

#[test]
fn the_words_of_driver_and_spe_have_their_bytes() {
    let mut vectors = Vectors::of("spe", include_str!("../../../tests/vectors/spe.txt"));
    let code = FunctionCode::Native { library: b"\x7fELF".to_vec(), symbol: "count_words".into() };
    let load = FunctionSpec { code, parameters: vec![("k".into(), "v".into())] };
    let winners = vec![Winner { task: 0, attempt: 0, bytes: 9 }, Winner { task: 1, attempt: 2, bytes: 1 << 30 }];
    compare!(vectors, SpeRequest {
        "load": SpeRequest::Load(_) => SpeRequest::Load(LoadOrder::plain(load)),
        "run": SpeRequest::Run(_) => SpeRequest::Run(task()),
        "seal": SpeRequest::Seal(_) => SpeRequest::Seal(SealOrder { bucket: bucket(), winners, publish: true, in_order: true }),
        "deliver": SpeRequest::Deliver(_) => SpeRequest::Deliver(DeliveryOrder {
            attempt: task().attempt,
            targets: vec![(3, bucket_place())],
        }),
        "publish": SpeRequest::Publish { .. } => SpeRequest::Publish { bucket: bucket(), ticket: signed() },
        "fetch": SpeRequest::Fetch(_) => SpeRequest::Fetch(bucket()),
    });
    let built_in = FunctionSpec { code: FunctionCode::BuiltIn("terasort".into()), parameters: vec![] };
    vectors.compare("SpeRequest.load-built-in", &SpeRequest::Load(LoadOrder::plain(built_in)));
    let source = PythonCode::Source { file: "count.py".into(), text: "def count(segment): return b''\n".into() };
    let pickle = PythonCode::Pickle { bytes: b"\x80\x05.".to_vec(), python: (3, 11) };
    let modules = || vec![ModuleFile { path: "sky/stars.py".into(), bytes: b"N = 7\n".to_vec() }];
    let codes = [
        ("SpeRequest.load-source", source.clone()),
        ("SpeRequest.load-pickle", pickle.clone()),
        ("SpeRequest.load-source-modules", source.clone().with_modules(modules())),
        ("SpeRequest.load-pickle-modules", pickle.clone().with_modules(modules())),
        ("SpeRequest.load-source-environment", source.with_modules(modules()).with_requirements("numpy==2.0\n".into())),
        ("SpeRequest.load-pickle-environment", pickle.with_requirements("numpy==2.0\n".into())),
    ];
    for (name, code) in codes {
        let requires = vec![("numpy".into(), None), ("astropy".into(), Some("6.1.0".into()))];
        let code = FunctionCode::Python(PythonFunction { name: "count".into(), code, requires });
        let function = FunctionSpec { code, parameters: vec![] };
        vectors.compare(name, &SpeRequest::Load(LoadOrder::plain(function)));
    }
    let code = FunctionCode::Program { words: vec!["tr".into(), "a-z".into(), "A-Z".into()] };
    let program = FunctionSpec { code, parameters: vec![] };
    vectors.compare("SpeRequest.load-program", &SpeRequest::Load(LoadOrder::plain(program.clone())));
    let side =
        |name: &str, slice, from| SideFileOrder { name: SideFileName::new(name).unwrap(), slice, bytes: 70_000, from };
    let side = vec![side("words", SliceId(1), None), side("centres", SliceId(2), Some(Box::new(super::source())))];
    let beside = LoadOrder { function: program, side_files: side, inputs: Some(signed()) };
    vectors.compare("SpeRequest.load-side", &SpeRequest::Load(beside));
    vectors.compare("SpeRequest.run-local", &SpeRequest::Run(TaskOrder { output: OutputPlacement::Local, ..task() }));
    let piece = |bucket, bytes, is_delivered| PieceResult { bucket, bytes, checksum: 0xdead_beef, is_delivered };
    let pieces = vec![piece(0, 300, true), piece(7, 1 << 20, false)];
    let result = TaskResult { records_in: 10, bytes_in: 1000, records_out: 20, pieces, counters: counters() };
    let (function, message) = ("parse".into(), "not a number".into());
    let record_start = b"4x2".to_vec();
    let error = FunctionFailure { function, path: path(), segment: 3, record: Some(41), message, record_start };
    compare!(vectors, SpeReply {
        "loaded": SpeReply::Loaded => SpeReply::Loaded,
        "progress": SpeReply::Progress { .. } => SpeReply::Progress { bytes: 123_456 },
        "finished": SpeReply::Finished(_) => SpeReply::Finished(result),
        "function-failed": SpeReply::FunctionFailed(_) => SpeReply::FunctionFailed(error.clone()),
        "refused": SpeReply::Refused(_) => SpeReply::Refused(refusal(Reason::Invalid)),
        "sealed": SpeReply::Sealed { .. } => SpeReply::Sealed { bytes: 5, order: vec![1, 0] },
        "published": SpeReply::Published { .. } => SpeReply::Published { bytes: 5, digest: digest() },
        "bytes": SpeReply::Bytes(_) => SpeReply::Bytes(vec![0, 255, 128]),
        "delivered": SpeReply::Delivered => SpeReply::Delivered,
        "out-of-memory": SpeReply::OutOfMemory(_) => SpeReply::OutOfMemory(error),
        "printed": SpeReply::Printed(_) => SpeReply::Printed(PrintedOutput {
            segments: super::history::logs().segments.into_iter().map(|log| log.output).collect(),
            left_out: 9,
        }),
    });
    vectors.finish();
}

fn bucket_place() -> BucketTarget {
    BucketTarget {
        node: node(),
        address: address(),
        distance: Some(Distance::SameSite),
        ticket: signed(),
        site: "jhu".into(),
        generation: 1,
        is_wanted: true,
    }
}

fn task() -> TaskOrder {
    let part =
        |source, records, guide| PartOrder { source, path: path(), from: 100, until: 200, records, locator: guide };
    let segment = |segment, source| SegmentOrder::single(segment, part(source, RecordFraming::Fixed(100), None));
    let offsets = RecordLocator::Offsets { source: SegmentSource::Local(slice()), from: 64, until: 96 };
    let footer = RecordLocator::Footer { from: 900, until: 1000, row_group: 2, rows: 50 };
    TaskOrder {
        attempt: AttemptId { job: JobId(6), stage: 1, epoch: 0, task: 5, attempt: 2 },
        segments: vec![
            segment(0, SegmentSource::Local(slice())),
            segment(1, SegmentSource::Remote { slice: slice(), from: Box::new(source()) }),
            segment(2, SegmentSource::Bucket(bucket())),
            SegmentOrder {
                segment: 3,
                first: part(SegmentSource::Local(slice()), RecordFraming::Index, Some(offsets)),
                zipped: vec![part(SegmentSource::Local(slice()), RecordFraming::Parquet, Some(footer))],
            },
        ],
        output: OutputPlacement::Buckets(vec![bucket_place()]),
        inputs: Some(signed()),
    }
}
