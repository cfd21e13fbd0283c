//! Python packages that go along with a job, at a node. They are installed once in the sandbox and kept for later jobs.
//! What is missing is named.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use std::{fs, process::Command};

use fake_cloud::{Driver, FakeCloud, FakeNode, JOB, path};
use protocol::{
    RecordFraming, SideFileName, SliceId, Status,
    message::spe::{
        AttemptId, FunctionCode, FunctionSpec, LoadOrder, OutputPlacement, PartOrder, PythonCode, PythonFunction,
        SegmentOrder, SegmentSource, SideFileOrder, SpeReply, SpeRequest, TaskOrder, WHEELS_SIDE_FILE,
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packages_that_go_along_are_installed_once_and_imported() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let wheels = archive(&[
        ("skylib", "1.0", "import skybase\nSTAR = skybase.STAR\n", "skybase>=2"),
        ("skybase", "2.1", "STAR = b'Sirius'\n", ""),
    ]);
    cloud.put(&node, 1, b"x\n").await;
    cloud.put(&node, 2, &wheels).await;
    let (mut one, mut other) = (cloud.drive(&node).await, cloud.drive(&node).await);
    let order = || load(&cloud, &node, "skylib==1.0", &wheels);
    let (first, second) = tokio::join!(one.ask(order()), other.ask(order()));
    assert_eq!((&first, &second), (&SpeReply::Loaded, &SpeReply::Loaded));
    assert!(finished(&mut one).await && finished(&mut other).await);
    let [made] = &environments(&node)[..] else { panic!("{:?}", environments(&node)) };
    let before = fs::metadata(made.join("skylib.py")).unwrap().created().unwrap();
    let mut later = cloud.drive(&node).await;
    assert_eq!(later.ask(order()).await, SpeReply::Loaded);
    assert_eq!(fs::metadata(made.join("skylib.py")).unwrap().created().unwrap(), before, "nothing was made again");
    // The wheels are no side file of the function's, and packages are for reading alone.
    let spies = "import skylib, os\ndef f(segment, out):\n    assert not segment.side\n    \
                 folder = os.path.dirname(skylib.__file__)\n    \
                 try: open(os.path.join(folder, 'skylib.py'), 'a')\n    except OSError: return\n    raise ValueError\n";
    let mut spy = cloud.drive(&node).await;
    assert_eq!(spy.ask(load_text(&cloud, &node, "skylib", &wheels, spies)).await, SpeReply::Loaded);
    assert!(finished(&mut spy).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_among_the_wheels_is_named_and_leaves_nothing() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let wheels = archive(&[("skylib", "1.0", "", "skybase>=2")]);
    cloud.put(&node, 2, &wheels).await;
    for (requirements, missing) in [("skylib", "skybase>=2"), ("skylib==3", "skylib==3"), ("nosuch", "nosuch")] {
        let mut driver = cloud.drive(&node).await;
        let SpeReply::Refused(refusal) = driver.ask(load(&cloud, &node, requirements, &wheels)).await else {
            panic!("{requirements}")
        };
        // No other node could do it, so the job ends with this sentence.
        assert_eq!(refusal.status(), Status::Usage, "{refusal}");
        assert!(refusal.message.contains(missing) && refusal.message.contains("among the wheels"), "{refusal}");
    }
    assert!(environments(&node).is_empty());
    let code = source("def f(segment, out): pass\n").with_requirements("skylib".into());
    let function = function(code);
    let mut driver = cloud.drive(&node).await;
    let without = driver.ask(SpeRequest::Load(LoadOrder::plain(function))).await;
    assert!(
        matches!(&without, SpeReply::Refused(refusal) if refusal.message.contains("without its wheels")),
        "{without:?}"
    );
}

fn source(text: &str) -> PythonCode {
    PythonCode::Source { file: "f.py".into(), text: text.into() }
}

fn function(code: PythonCode) -> FunctionSpec {
    let code = FunctionCode::Python(PythonFunction { name: "f".into(), code, requires: vec![] });
    FunctionSpec { code, parameters: vec![] }
}

/// An order to load a function that needs its package `skylib`.
fn load(cloud: &FakeCloud, node: &FakeNode, requirements: &str, wheels: &[u8]) -> SpeRequest {
    let text = "import skylib\ndef f(segment, out):\n    assert skylib.STAR == b'Sirius'\n";
    load_text(cloud, node, requirements, wheels, text)
}

fn load_text(cloud: &FakeCloud, node: &FakeNode, requirements: &str, wheels: &[u8], text: &str) -> SpeRequest {
    let wheels = SideFileOrder {
        name: SideFileName::new(WHEELS_SIDE_FILE).unwrap(),
        slice: SliceId(2),
        bytes: wheels.len() as u64,
        from: None,
    };
    let function = function(source(text).with_requirements(requirements.into()));
    let inputs = Some(cloud.inputs_ticket(node, &[1, 2]));
    SpeRequest::Load(LoadOrder { function, side_files: vec![wheels], inputs })
}

/// Whether the function ran over a segment.
async fn finished(driver: &mut Driver) -> bool {
    let part = PartOrder::plain(SegmentSource::Local(SliceId(1)), path("/in"), 0, 2, RecordFraming::Lines);
    let attempt = AttemptId { job: JOB, stage: 0, epoch: 0, task: 0, attempt: 0 };
    let segments = vec![SegmentOrder::single(0, part)];
    let task = TaskOrder { attempt, segments, output: OutputPlacement::Local, inputs: None };
    let reply = driver.ask(SpeRequest::Run(task)).await;
    assert!(matches!(reply, SpeReply::Finished(_)), "{reply:?}");
    true
}

/// The environments that a node has.
fn environments(node: &FakeNode) -> Vec<std::path::PathBuf> {
    let Ok(items) = fs::read_dir(node.folder.join("environments")) else { return vec![] };
    items.map(|item| item.unwrap().path()).collect()
}

/// An archive of wheels, each with a name, a version, the text of its only module, and what it needs.
fn archive(wheels: &[(&str, &str, &str, &str)]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    for (name, version, text, needs) in wheels {
        let wheel = folder.path().join(format!("{name}-{version}-py3-none-any.whl"));
        let made =
            Command::new("python3").args(["-c", MAKE_WHEEL]).arg(&wheel).args([name, version, text, needs]).status();
        assert!(made.unwrap().success());
        archive.append_path_with_name(&wheel, wheel.file_name().unwrap()).unwrap();
    }
    archive.into_inner().unwrap()
}

/// A wheel is an archive (`zip`) of its modules and of what describes them.
const MAKE_WHEEL: &str = "\
import sys, zipfile
file, name, version, text, needs = sys.argv[1:]
about = f'{name}-{version}.dist-info'
with zipfile.ZipFile(file, 'w') as wheel:
    wheel.writestr(f'{name}.py', text)
    needed = f'Requires-Dist: {needs}\\n' if needs else ''
    wheel.writestr(f'{about}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n{needed}')
    wheel.writestr(f'{about}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(f'{about}/RECORD', '')
";
