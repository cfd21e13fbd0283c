"""Jobs from Python: what they make, how they fail, how they are stopped."""

import errno
import json
import re
import struct
import subprocess
import sys
import threading
import zipfile
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath
from typing import Any

import cloudpickle
import pandas
import pyarrow.compute
import pyarrow.parquet
import pytest

import sector
from sector.functions import packed
from sector.progress import said

TEXTS = {
    "a.txt": "the quick brown fox jumps over the lazy dog\nthe end\n",
    "b.txt": "a quick end\n",
    "c.txt": "nothing of the kind\n",
}


@pytest.fixture
def texts(cloud: sector.Cloud, folder: str) -> str:
    """A folder with three short texts."""
    for name, text in TEXTS.items():
        cloud.write_bytes(f"{folder}/in/{name}", text.encode())
    return f"{folder}/in"


def test_an_inverted_index_is_the_plain_one(cloud: sector.Cloud, folder: str, texts: str) -> None:
    job = cloud.stream(f"{texts}/*.txt").map("words", buckets=3).map("index").to(f"{folder}/out")
    assert job.id is None and job.status is None
    assert job.run() is job
    found = {}
    for path in job.outputs:
        for line in cloud.read_bytes(path).decode().splitlines():
            word, files = re.split(r"[\t ]", line, maxsplit=1)
            found[word] = sorted(name for name in TEXTS if name in files)
    plain = defaultdict(set)
    for name, text in TEXTS.items():
        for word in text.split():
            plain[word].add(name)
    assert found == {word: sorted(names) for word, names in plain.items()}
    assert job.status is not None and job.status.state == "done" and job.status.id == job.id
    assert [stage.done for stage in job.status.stages] == [stage.segments for stage in job.status.stages]
    assert "words, then index over" in job.status.title
    assert job.id in [status.id for status in cloud.jobs()]


SEPARATOR = b" "


def words_of(segment, out):  # type: ignore[no-untyped-def]
    """Each word to its bucket; uses what its module has."""
    for line in segment.lines():
        for word in bytes(line).split(SEPARATOR):
            out.emit(word + b"\n", bucket=word)


def test_functions_in_python_count_words(cloud: sector.Cloud, folder: str, texts: str) -> None:
    least = 2

    def often(segment, out):  # type: ignore[no-untyped-def]
        for word, count in sorted(Counter(bytes(line) for line in segment.lines()).items()):
            if count >= least:
                out.emit(b"%s %d\n" % (word, count))

    stream = cloud.stream(f"{texts}/*.txt", records="lines")
    job = stream.map(words_of, buckets=3, records="lines").map(often, records="lines").to(f"{folder}/out")
    job.run(progress=False)
    found = [line for path in job.outputs for line in cloud.read_bytes(path).decode().splitlines()]
    plain = Counter(word for text in TEXTS.values() for word in text.split())
    assert sorted(found) == sorted(f"{word} {count}" for word, count in plain.items() if count >= least)
    assert job.status is not None and "words_of, then " in job.status.title


def test_what_a_python_function_raises_comes_back(cloud: sector.Cloud, folder: str, texts: str) -> None:
    def divides(segment, out):  # type: ignore[no-untyped-def]
        for line in segment.records():
            out.emit(b"%d" % (1 // (len(line) - len(b"the end"))))

    job = cloud.stream(f"{texts}/a.txt", records="lines").map(divides).to(f"{folder}/out")
    with pytest.raises(sector.JobError, match=r"(?s)divides.*record 1.*ZeroDivisionError"):
        job.run(progress=False)


def test_a_function_says_what_it_needs_where_it_runs() -> None:
    def averages(segment, out):  # type: ignore[no-untyped-def]
        out.emit(bytes(pyarrow.compute.mean(segment.arrow()[0])))

    made_by = ("cloudpickle", cloudpickle.__version__)
    assert packed(averages)[3] == [("pyarrow", None), made_by]
    assert packed(pandas.isna)[3] == [("pandas", pandas.__version__), made_by]
    # Its module is no package's: it goes along.
    assert packed(words_of)[3] == [made_by]


def test_parameters_records_and_buckets_reach_the_function(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/in", bytes(range(200, 100, -1)) * 4, records="fixed:4")
    job = cloud.stream(f"{folder}/in").map("sort", key="0:1", records="fixed:4").to(f"{folder}/out", copies=1)
    [output] = job.run(progress=False).outputs
    records = cloud.read_bytes(output)
    firsts = list(records[::4])
    assert len(records) == 400 and firsts == sorted(firsts)
    assert (cloud.stat(output).records, cloud.stat(output).copies_wanted) == ("fixed:4", 1)


# Promise 20.
def test_each_row_group_is_a_segment_with_its_columns(cloud: sector.Cloud, folder: str) -> None:
    def sums(segment, out):  # type: ignore[no-untyped-def]
        batch = segment.arrow()
        assert batch.num_rows == segment.rows
        total = pyarrow.compute.sum(batch.column("mag")).as_py()
        out.emit(b"%d %d %s\n" % (segment.row_group, total, batch.column("name")[0].as_py().encode()))
        out.count("rows", segment.rows)

    table = pyarrow.table({"mag": range(1000), "name": [f"star{number}" for number in range(1000)]})
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink, row_group_size=300)
    content = sink.getvalue().to_pybytes()
    cloud.write_bytes(f"{folder}/in/stars", content, records="parquet")
    job = cloud.stream(f"{folder}/in").map(sums).to(f"{folder}/out")
    job.run(progress=False)
    found = sorted(line for path in job.outputs for line in cloud.read_bytes(path).decode().splitlines())
    groups = [range(first, min(first + 300, 1000)) for first in range(0, 1000, 300)]
    assert found == [f"{number} {sum(group)} star{group[0]}" for number, group in enumerate(groups)]
    assert job.status is not None and job.status.stages[0].segments == len(groups)
    assert job.status.stages[0].counters == {"rows": 1000}
    cloud.write_bytes(f"{folder}/cut", content[:-1], records="parquet")
    with pytest.raises(ValueError, match=r"cut.*no Parquet"):
        cloud.stream(f"{folder}/cut").map(sums).to(f"{folder}/none").run(progress=False)


def test_streams_that_are_added_are_read_together(cloud: sector.Cloud, folder: str) -> None:
    def differences(segment, out):  # type: ignore[no-untyped-def]
        left, right = (stream.numpy("<i8") for stream in segment.streams)
        out.write((left - right).tobytes(), records=len(left))

    numbers = range(0, 5000, 5)
    for name, start in [("a", 1000), ("b", 1)]:
        content = b"".join((start + number).to_bytes(8, "little") for number in numbers)
        cloud.write_bytes(f"{folder}/{name}", content, records="fixed:8")
    streams = [cloud.stream(f"{folder}/{name}", segment_bytes=(1000, 4000)) for name in "ab"]
    job = (streams[0] + streams[1]).map(differences).to(f"{folder}/out")
    job.run(progress=False)
    assert b"".join(cloud.read_bytes(path) for path in job.outputs) == (999).to_bytes(8, "little") * len(numbers)
    with pytest.raises(ValueError, match="before their first"):
        streams[0] + streams[1].map("count")
    with pytest.raises(ValueError, match="one `records`"):
        streams[0] + cloud.stream(f"{folder}/b", records="file")


# Promise 60.
def test_a_failed_job_raises_and_leaves_nothing(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/in", bytes(40), records="fixed:4")
    with pytest.raises(sector.JobError, match="sort") as caught:
        cloud.stream(f"{folder}/in").map("sort", key="5:9").to(f"{folder}/out").run()
    assert caught.value.job_id in [status.id for status in cloud.jobs()]
    assert caught.value.errors
    assert [entry.name for entry in cloud.ls(folder)] == ["in"]


def test_what_keeps_a_job_from_running_is_pythons_own_error(cloud: sector.Cloud, folder: str, texts: str) -> None:
    stream = cloud.stream(texts)
    with pytest.raises(ValueError, match="needs a function"):
        stream.to(f"{folder}/out")
    with pytest.raises(FileNotFoundError):
        cloud.stream(f"{folder}/none/*").map("copy").to(f"{folder}/out").run()
    with pytest.raises(FileExistsError):
        stream.map("copy").to(texts).run()
    with pytest.raises(FileNotFoundError):
        stream.map("/nonexistent/lib.so:f")
    with pytest.raises(TypeError):
        stream.map(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="colour"):
        stream.map("copy", records="colour").to(f"{folder}/out")
    job = stream.map("copy").to(f"{folder}/out")
    with pytest.raises(ValueError, match="not run"):
        _ = job.outputs
    with pytest.raises(ValueError, match="not begun"):
        job.cancel()


# Promise 60.
def test_a_cancelled_job_ends_in_its_thread_and_leaves_nothing(cloud: sector.Cloud, folder: str) -> None:
    for number in range(40):
        cloud.write_bytes(f"{folder}/in/{number:02}", bytes(1_000_000), copies=1)
    job = cloud.stream(f"{folder}/in").map("count", buckets=4).to(f"{folder}/out")
    began, errors = threading.Event(), []

    def told(stage: int, bytes_done: int, bytes_total: int) -> None:
        if not began.is_set():
            began.set()
            # Within `run`: it is stopped before it goes on.
            job.cancel()

    def run() -> None:
        try:
            job._native.run(told)
        except sector.JobError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        assert "cancel" in str(errors[0])
        assert not cloud.exists(f"{folder}/out")
        assert {status.id: status.state for status in cloud.jobs()}[errors[0].job_id] == "cancelled"
    else:
        assert cloud.exists(f"{folder}/out"), "it was done before it could be stopped"
    assert {entry.name for entry in cloud.ls(folder)} <= {"in", "out"}


def test_files_are_indexed_and_read_by_their_records(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/genes.fa", b">a\nAC\nGT\n>bc\nTTT\n>d\n")
    assert cloud.index(f"{folder}/genes.fa", begins=">") == [f"{folder}/genes.fa.idx"]

    def lengths(segment, out):  # type: ignore[no-untyped-def]
        for record in segment.records():
            out.emit(b"%d\n" % len(record))

    job = cloud.stream(f"{folder}/genes.fa", records="index").map(lengths).to(f"{folder}/lengths").run(progress=False)
    assert b"".join(cloud.read_bytes(path) for path in job.outputs) == b"9\n8\n3\n"
    with pytest.raises(ValueError, match="need no index"):
        cloud.index(f"{folder}/genes.fa", records="file")
    with pytest.raises(FileNotFoundError):
        cloud.index(f"{folder}/none")


def test_a_detached_job_is_driven_by_a_node_and_can_be_waited_for(cloud: sector.Cloud, folder: str, texts: str) -> None:
    job = cloud.stream(texts).map("words", buckets=2).map("index").to(f"{folder}/out")
    with pytest.raises(ValueError, match="not detached"):
        job.wait()
    began = job.detach()
    assert job.id == began
    waited = job.wait()
    assert waited.status is not None and (waited.status.state, waited.status.driver) == ("done", None)
    same = cloud.stream(texts).map("words", buckets=2).map("index").to(f"{folder}/same")
    same.run()
    assert [path.rpartition("/")[2] for path in job.outputs] == [path.rpartition("/")[2] for path in same.outputs]
    assert [cloud.read_bytes(path) for path in job.outputs] == [cloud.read_bytes(path) for path in same.outputs]
    with pytest.raises(FileExistsError):
        cloud.stream(texts).map("words").to(f"{folder}/out").detach()


def test_a_detached_job_whose_function_fails_says_so_to_who_waits(cloud: sector.Cloud, folder: str, texts: str) -> None:
    def fails(segment: Any, out: Any) -> None:
        raise RuntimeError("not today")

    job = cloud.stream(texts).map(fails).to(f"{folder}/out")
    began = job.detach()
    with pytest.raises(sector.JobError, match="not today") as caught:
        job.wait()
    assert caught.value.job_id == began
    assert not cloud.exists(f"{folder}/out")


def test_a_job_that_was_started_elsewhere_is_found_by_its_id(cloud: sector.LocalCloud, folder: str, texts: str) -> None:
    job = cloud.stream(texts).map("words", buckets=2).map("index").to(f"{folder}/out")
    began = job.detach()
    with sector.connect(cloud.profile) as there:
        found = there.job(began, f"{folder}/out")
        assert isinstance(found, sector.Job) and found.id == began
        assert found.wait() is found and found.status is not None and found.status.state == "done"
        assert found.outputs == there.job(began, f"{folder}/out").outputs == job.wait().outputs
        with pytest.raises(ValueError, match="where a job writes"):
            _ = there.job(began).wait().outputs
        for verb in (found.run, found.detach):
            with pytest.raises(ValueError, match="begun elsewhere"):
                verb()
        with pytest.raises(FileNotFoundError):
            there.job("0")
        with pytest.raises(ValueError, match="no id"):
            there.job("my job")


def test_a_job_is_cancelled_by_its_id(cloud: sector.LocalCloud, folder: str, texts: str) -> None:
    job = cloud.stream(texts).map("words", buckets=2).map("index").to(f"{folder}/out")
    cancelled: list[str] = []

    def told(stage: int, bytes_done: int, bytes_total: int) -> None:
        if job.id is not None and not cancelled:
            cancelled.append(job.id)
            with sector.connect(cloud.profile) as there:
                there.job(job.id).cancel()

    try:
        job.run(progress=told)
    except sector.JobError:
        status = cloud.job(cancelled[0]).status
        assert status is not None and status.state == "cancelled" and not cloud.exists(f"{folder}/out")
        with pytest.raises(sector.JobError, match="cancelled"):
            cloud.job(cancelled[0]).wait()
    except PermissionError as error:
        assert error.errno == errno.EPERM and cloud.exists(f"{folder}/out"), "it was done before it could be stopped"
    else:
        assert cloud.exists(f"{folder}/out"), "it was done before it could be stopped"


def test_who_is_told_can_count_to_the_end(cloud: sector.Cloud, folder: str, texts: str) -> None:
    told: list[tuple[int, int, int]] = []
    job = cloud.stream(texts).map("words", buckets=2).map("index").to(f"{folder}/out")
    assert job.run(progress=lambda *now: told.append(now)) is job
    assert job.status is not None and told == sorted(told)
    assert told[-1] == (1, *[job.status.stages[1].bytes_in] * 2)


# Promise 60.
def test_an_error_of_who_is_told_cancels_the_job(cloud: sector.Cloud, folder: str, texts: str) -> None:
    def told(stage: int, bytes_done: int, bytes_total: int) -> None:
        raise ZeroDivisionError

    job = cloud.stream(texts).map("words", buckets=2).map("index").to(f"{folder}/out")
    with pytest.raises(ZeroDivisionError):
        job._native.run(told)
    states = {status.id: status.state for status in cloud.jobs()}
    assert job.id is not None and states[job.id] in ("cancelled", "done")


def test_the_bar_says_how_far_it_is() -> None:
    assert said(0, 0, 10).startswith("stage 1 [ ") and said(1, 10, 10).count("=") == 30
    assert said(0, 1536, 3 * 1024**3).endswith("1.5 KiB of 3.0 GiB")
    assert said(0, 0, 0).count("=") == 30


EXAMPLES = Path(__file__).parents[2] / "examples/python"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*")), ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    program = example.read_text()
    if example.suffix == ".ipynb":
        cells = [cell for cell in json.loads(program)["cells"] if cell["cell_type"] == "code"]
        program = "\n".join("".join(cell["source"]) for cell in cells)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_a_job_that_bears_errors_leaves_their_segments_out_and_says_which(
    cloud: sector.Cloud, folder: str, texts: str
) -> None:
    def picky(segment, out):  # type: ignore[no-untyped-def]
        for line in segment.lines():
            if bytes(line).startswith(b"a quick"):
                raise ValueError("too quick")
            out.emit(bytes(line) + b"\n")

    stream = cloud.stream(f"{texts}/*.txt", records="lines").map(picky)
    with pytest.raises(sector.JobError, match="too quick"):
        stream.to(f"{folder}/none").run()
    job = stream.to(f"{folder}/out", max_errors=1).run()
    found = b"".join(cloud.read_bytes(path) for path in job.outputs).decode()
    assert sorted(found.splitlines()) == sorted((TEXTS["a.txt"] + TEXTS["c.txt"]).splitlines())
    assert job.status is not None and job.status.error_slice == f"{folder}/out/errors.jsonl"
    [error] = [json.loads(line) for line in cloud.read_bytes(job.status.error_slice).splitlines()]
    assert error["slice"] == f"{texts}/b.txt" and error["record"] == 0 and error["record_start"] == "a quick end"
    assert "too quick" in error["message"] and "Traceback" not in error["record_start"]


def test_a_function_reads_the_side_files_of_its_own_stage(cloud: sector.Cloud, folder: str, texts: str) -> None:
    cloud.write_bytes(f"{folder}/side/wanted", b"end\nfox\n")
    cloud.write_bytes(f"{folder}/side/rates", struct.pack("<2d", 0.5, 4.0))

    def wanted(segment, out):  # type: ignore[no-untyped-def]
        assert list(segment.side) == ["words"] and segment.side["words"].readonly
        words = bytes(segment.side["words"]).split()
        for line in segment.lines():
            for word in bytes(line).split():
                if word in words:
                    out.emit(word + b"\n", bucket=word)

    def rated(segment, out):  # type: ignore[no-untyped-def]
        rates = segment.side["rates"].cast("d")
        for word, count in Counter(segment.lines()).items():
            out.emit(b"%s %g\n" % (word, count * sum(rates)))

    stream = cloud.stream(f"{texts}/*.txt", records="lines")
    first = stream.map(wanted, buckets=2, records="lines", side={"words": f"{folder}/side/wanted"})
    job = first.map(rated, side={"rates": PurePosixPath(f"{folder}/side/rates")}).to(f"{folder}/out")
    job.run(progress=False)
    found = sorted(line for path in job.outputs for line in cloud.read_bytes(path).splitlines())
    assert found == [b"end 9", b"fox 4.5"]


def test_a_side_file_that_cannot_be_had_keeps_the_job_from_beginning(
    cloud: sector.Cloud, folder: str, texts: str
) -> None:
    stream = cloud.stream(f"{texts}/*.txt")
    job = stream.map("copy", side={"words": f"{folder}/none"}).to(f"{folder}/out")
    with pytest.raises(FileNotFoundError, match="none"):
        job.run(progress=False)
    assert job.id is None
    with pytest.raises(ValueError, match="my-words"):
        stream.map("copy", side={"my-words": f"{texts}/a.txt"}).to(f"{folder}/out")
    with pytest.raises(ValueError, match="is a folder"):
        stream.map("copy", side={"words": texts}).to(f"{folder}/out").run(progress=False)


def test_what_functions_print_is_read_by_segment(cloud: sector.Cloud, folder: str, texts: str) -> None:
    def f(segment, out):  # type: ignore[no-untyped-def]
        print("begins", bytes(segment.buffer[:5]).decode())
        if segment.path.endswith("c.txt"):
            raise ValueError("no c")

    job = cloud.stream(f"{texts}/*.txt", records="lines").map(f).to(f"{folder}/out", max_errors=1)
    with pytest.raises(ValueError, match="not begun"):
        job.logs()
    job.run()
    found = {(log.stage, log.segment): (log.text, log.failed) for log in job.logs()}
    assert found == {
        (0, 0): ("begins the q", False),
        (0, 1): ("begins a qui", False),
        (0, 2): ("begins nothi", True),
    }
    assert job.id is not None
    assert cloud.job(job.id).logs() == job.logs()
    assert job.status is not None
    assert job.id in [status.id for status in cloud.jobs(user=job.status.user, state="done")]
    assert job.id not in [status.id for status in cloud.jobs(state="failed")]
    with pytest.raises(ValueError, match="no state"):
        cloud.jobs(state="finished")


def test_equal_errors_are_one_and_an_unknown_parameter_is_refused(cloud: sector.Cloud, folder: str, texts: str) -> None:
    def fails(segment, out):  # type: ignore[no-untyped-def]
        raise ValueError("alike")

    job = cloud.stream(f"{texts}/*.txt", records="lines").map(fails).to(f"{folder}/out", max_errors=3).run()
    assert job.status is not None
    [error] = job.status.errors
    assert error.startswith("3 segments failed alike (")
    with pytest.raises(ValueError, match="`filter` knows contains"):
        cloud.stream(texts, records="lines").map("filter", contians="a").to(f"{folder}/none").run()


def test_a_reduction_alone_gives_one_record_a_key(cloud: sector.Cloud, folder: str) -> None:
    for name in "ab":
        cloud.write_bytes(f"{folder}/in/{name}", b"x\ny\nx\n")
    stream = cloud.stream(f"{folder}/in", records="lines")
    job = stream.map("reduce", reduction="count", records="lines").to(f"{folder}/out").run()
    found = sorted(line for path in job.outputs for line in cloud.read_bytes(path).splitlines())
    assert found == [b"x\t4", b"y\t2"]


def test_modules_of_ones_own_go_along(cloud: sector.Cloud, folder: str, texts: str, tmp_path: Path) -> None:
    (tmp_path / "sky").mkdir()
    (tmp_path / "sky" / "__init__.py").write_text("")
    (tmp_path / "sky" / "stars.py").write_text("BRIGHT = b'Sirius'\n")

    def f(segment, out):  # type: ignore[no-untyped-def]
        from sky.stars import BRIGHT  # type: ignore[import-not-found]

        out.emit(BRIGHT)

    stream = cloud.stream(texts)
    job = stream.map(f, py_modules=[tmp_path / "sky"]).to(f"{folder}/out").run()
    assert {cloud.read_bytes(path) for path in job.outputs} <= {b"Sirius" * count for count in (1, 2, 3)}
    with pytest.raises(TypeError, match="list"):
        stream.map(f, py_modules="sky")
    with pytest.raises(ValueError, match="none"):
        stream.map("copy", py_modules=[tmp_path / "sky"]).to(f"{folder}/none")


def make_wheel(folder: Path, name: str, version: str, text: str) -> None:
    """A wheel with one module."""
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def test_packages_go_along_as_wheels(cloud: sector.Cloud, folder: str, texts: str, tmp_path: Path) -> None:
    make_wheel(tmp_path, "skypack", "1.5", "STAR = b'Vega'\n")

    def f(segment, out):  # type: ignore[no-untyped-def]
        import skypack  # type: ignore[import-not-found]

        out.emit(skypack.STAR)

    stream = cloud.stream(texts).map(f)
    job = stream.to(f"{folder}/out", requirements=["skypack==1.5"], wheels=tmp_path).run()
    assert {cloud.read_bytes(path) for path in job.outputs} <= {b"Vega" * count for count in (1, 2, 3)}
    (tmp_path / "requirements.txt").write_text("skypack==2\n")
    with pytest.raises(ValueError, match=r"skypack==2.*among the wheels"):
        stream.to(f"{folder}/none", requirements=tmp_path / "requirements.txt", wheels=tmp_path).run()
    with pytest.raises(ValueError, match="go together"):
        stream.to(f"{folder}/none", requirements=["skypack"])
    with pytest.raises(ValueError, match="none"):
        cloud.stream(texts).map("copy").to(f"{folder}/none", requirements=["skypack"], wheels=tmp_path).run()
