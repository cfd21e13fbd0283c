"""`sector.test`: a function does there what it does in a job."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import sector
import sector._runner
from sector.functions import Output, Segment, packed
from sector.trial import key_hash

TEXT = b"the quick brown fox jumps over the lazy dog\nthe end\n"


def words(segment: Segment, out: Output) -> None:
    """Each word to its bucket."""
    for line in segment.lines():
        for word in line.split():
            out.emit(word + b"\n", bucket=word)
        out.emit(segment.parameters["end"].encode(), bucket=segment.index + 2)
        out.count("lines")
    out.write(b"%d of %d\n" % (len(segment), segment.buckets), bucket="all", records=1)


def test_a_function_does_the_same_in_a_test_as_in_a_job(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/in", TEXT)
    stream = cloud.stream(f"{folder}/in", records="lines").map(words, buckets=3, end="!\n")
    job = stream.to(f"{folder}/out").run(progress=False)
    there = {path[-1]: cloud.read_bytes(path) for path in job.outputs}
    here = sector.test(words, TEXT, records="lines", buckets=3, end="!\n")
    assert {str(number): b"".join(bucket) for number, bucket in enumerate(here.buckets) if bucket} == there
    assert job.status is not None and job.status.stages[0].counters == here.counters == {"lines": 2}
    assert [bucket.count(b"the\n") for bucket in here.buckets].count(3) == 1


def test_an_error_is_the_one_of_a_job_and_its_cause_is_what_was_raised(cloud: sector.Cloud, folder: str) -> None:
    def divides(segment: Segment, out: Output) -> None:
        for line in segment.records():
            out.emit(b"%d" % (1 // (len(line) - len(b"the end"))))

    def counts(segment: Segment, out: Output) -> None:
        out.count("x" * 65)

    cloud.write_bytes(f"{folder}/data", TEXT)

    def iterates(segment: Any, out: Output) -> None:
        list(segment)

    for function, cause in ((divides, ZeroDivisionError), (counts, type(None)), (iterates, TypeError)):
        stream = cloud.stream(f"{folder}/data", records="lines").map(function)
        with pytest.raises(sector.JobError) as there:
            stream.to(f"{folder}/out").run(progress=False)
        with pytest.raises(sector.JobError) as here:
            sector.test(function, TEXT, records="lines")
        # Only here the lines of the program are at hand.
        assert str(here.value).startswith(str(there.value).replace(folder, ""))
        assert type(here.value.__cause__) is cause and here.value.errors == [str(here.value)]
    assert "segment.records()" in str(here.value)


def test_data_fall_into_records_as_it_is_said(tmp_path: Path) -> None:
    def seen(segment: Segment, out: Output) -> None:
        for record in segment.records():
            out.emit(record)
        out.count(f"{segment.index} {segment.path} {segment.format} {segment.record_bytes}")

    (tmp_path / "numbers").write_bytes(b"aabbcc")
    shown = [
        sector.test(seen, b"aabb"),
        sector.test(seen, tmp_path / "numbers", records="fixed:2"),
        sector.test(seen, [b"a", b"", b"bcd"]),
        sector.test(seen, [b"a", b"b\n"], records="lines"),
        sector.test(seen, [b"a", b"b\n"], records="file"),
    ]
    assert [(tested.buckets, list(tested.counters)) for tested in shown] == [
        ([[b"aabb"]], ["0 /data file 0"]),
        ([[b"aa", b"bb", b"cc"]], ["0 /numbers fixed 2"]),
        ([[b"a", b"", b"bcd"]], ["0 /data index 0"]),
        ([[b"a", b"b"]], ["0 /data lines 0"]),
        ([[b"a", b"b\n"]], ["0 /data-0 file 0", "1 /data-1 file 0"]),
    ]
    for data, records, why in [
        (b"abc", "fixed:2", "3 bytes do not fall"),
        (b"abc", "fixed", "no length"),
        (b"abc", "index", "a list"),
        (b"abc", "colour", "no records"),
        (b"abc", "parquet", "no Parquet file"),
    ]:
        with pytest.raises(ValueError, match=why):
            sector.test(seen, data, records=records)
    with pytest.raises(TypeError, match="number 1 is 'b'"):
        sector.test(seen, [b"a", "b"])  # type: ignore[list-item]


def test_row_groups_side_files_and_the_scratch_folder_are_there(tmp_path: Path) -> None:
    def sums(segment: Segment, out: Output) -> None:
        total = pyarrow.compute.sum(segment.arrow().column("n")).as_py()
        assert segment.rows is not None
        Path(out.scratch, "kept").write_text("x")
        assert segment.side["list"].readonly
        out.emit(b"%d %d %s" % (segment.row_group or 0, total + segment.rows, segment.side["list"]))

    pyarrow.parquet.write_table(pyarrow.table({"n": range(10)}), tmp_path / "n", row_group_size=6)
    for side in (b"side", tmp_path / "side"):
        (tmp_path / "side").write_bytes(b"side")
        tested = sector.test(sums, tmp_path / "n", records="parquet", side={"list": side})
        assert tested.buckets == [[b"0 21 side", b"1 34 side"]]
    with pytest.raises(sector.JobError, match="no side file 'list'"):
        sector.test(sums, tmp_path / "n", records="parquet")
    with pytest.raises(ValueError, match="my-list"):
        sector.test(sums, tmp_path / "n", side={"my-list": b""})


def test_what_would_not_run_in_a_job_does_not_run_here() -> None:
    here = sys._getframe()
    with pytest.raises(TypeError, match="cannot pickle"):
        sector.test(lambda segment, out: here, b"")
    with pytest.raises(ValueError, match=r"\(segment, out\), or \(segment\) alone"):
        sector.test(lambda: None, b"")
    with pytest.raises(TypeError, match="functions of Python"):
        sector.test("words", b"")
    assert sector.test(lambda segment: [(b"key", b"record")], b"").buckets == [[b"record"]]

    def stopped(segment: Segment, out: Output) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sector.test(stopped, b"")


def test_the_hash_of_a_key_is_that_of_the_nodes() -> None:
    # The published vectors of FNV-1a, as in crates/udf/src/hash.rs.
    assert [key_hash(key) for key in (b"", b"a", b"foobar")] == [
        0xCBF2_9CE4_8422_2325,
        0xAF63_DC4C_8601_EC8C,
        0x8594_4171_F739_67E8,
    ]


def test_the_types_are_those_of_what_a_function_is_given() -> None:
    found: dict[str, Any] = {}

    def look(segment: Segment, out: Output) -> None:
        found.update(segment=segment, out=out)

    # Its cell travels, but what it finds stays here.
    sector.test(look, b"a")
    for kind, given in ((Segment, found["segment"]), (Output, found["out"])):
        assert isinstance(given, kind)
        public = {name for name in {*dir(given), *vars(given)} if not name.startswith("_")}
        assert public == {name for name in dir(kind) if not name.startswith("_")}


def test_types_of_a_function_do_not_bring_the_package_to_the_nodes() -> None:
    def annotated(segment: Segment, out: Output) -> None:
        out.emit(b"%d" % len(segment))

    _, _, code, requires = packed(annotated)
    assert [name for name, _ in requires] == ["cloudpickle"] and b"sector" not in code
    read = "import sys, cloudpickle; f = cloudpickle.loads(sys.stdin.buffer.read()); print(f.__annotations__['out'].__name__)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['sector'] = None\n{read}"], input=code, stdout=-1
    )
    assert done.stdout == b"Output\n"


def test_what_spes_run_is_what_is_tested_with() -> None:
    link = Path(__file__).parents[2] / "crates/python/sector/_runner.py"
    assert link.is_symlink() and Path(sector._runner.__file__).read_bytes() == link.read_bytes()


def test_two_stages_are_tested_one_after_the_other() -> None:
    def total(segment: Segment, out: Output) -> None:
        for word, times in sorted(Counter(segment.lines()).items()):
            out.emit(b"%s %d\n" % (word, times))

    first = sector.test(words, TEXT, records="lines", buckets=2, end="!\n")
    counted = [line for bucket in first.buckets for line in sector.test(total, bucket, records="lines").buckets[0]]
    assert b"the 3\n" in counted and b"end 1\n" in counted
