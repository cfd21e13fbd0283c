"""`sector://` as a file system of fsspec: fsspec's own tests, and what people's libraries do with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.tests import abstract

import sector
from sector.filesystem import SectorFileSystem


class SectorFixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    """What fsspec's tests are told of this file system."""

    @pytest.fixture
    def fs(self, cloud: sector.LocalCloud) -> SectorFileSystem:
        return SectorFileSystem(cloud.profile)

    @pytest.fixture
    def fs_path(self, folder: str) -> str:
        return folder

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True


class TestCopy(abstract.AbstractCopyTests, SectorFixtures):  # type: ignore[misc]
    """fsspec's tests of copies."""


class TestGet(abstract.AbstractGetTests, SectorFixtures):  # type: ignore[misc]
    """fsspec's tests of downloads."""


class TestPut(abstract.AbstractPutTests, SectorFixtures):  # type: ignore[misc]
    """fsspec's tests of uploads."""


class TestPipe(abstract.AbstractPipeTests, SectorFixtures):  # type: ignore[misc]
    """fsspec's tests of writing whole files."""


class TestOpen(abstract.AbstractOpenTests, SectorFixtures):  # type: ignore[misc]
    """fsspec's tests of opening."""


@pytest.fixture
def fs(cloud: sector.LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[SectorFileSystem]:
    """The file system as others find it: by its protocol, and by the environment's profile."""
    monkeypatch.setenv("SECTOR_PROFILE", str(cloud.profile))
    SectorFileSystem.clear_instance_cache()
    yield fsspec.filesystem("sector")
    SectorFileSystem.clear_instance_cache()


def test_names_are_found_by_protocol_and_by_options(cloud: sector.LocalCloud, fs: Any, folder: str) -> None:
    assert isinstance(fs, SectorFileSystem)
    for url in (f"sector:/{folder}/a", f"sector://{folder}/a", f"{folder}/a"):
        assert fs._strip_protocol(url) == f"{folder}/a"
    assert fs._strip_protocol("sector://") == fs._strip_protocol("/") == "/"
    with fsspec.open(f"sector:/{folder}/a", "wb", profile=str(cloud.profile)) as file:
        file.write(b"by options")
    assert fs.cat(f"sector:/{folder}/a") == b"by options"


def test_a_profile_that_says_another_cloud_gives_another_file_system(
    cloud: sector.LocalCloud, fs: Any, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text("address = 'of a cloud that is gone'")
    monkeypatch.setenv("SECTOR_PROFILE", str(profile))
    old = [fsspec.filesystem("sector"), fsspec.filesystem("sector", profile=str(profile))]
    with pytest.raises(ValueError, match=r"profile\.toml"):
        old[0].ls("/")
    profile.write_text(cloud.profile.read_text())
    new = [fsspec.filesystem("sector"), fsspec.filesystem("sector", profile=str(profile))]
    for before, now in zip(old, new, strict=True):
        assert now is not before and now != before and now is not fs
        assert now.exists(folder)
    # As long as nothing changes, one is kept.
    assert [fsspec.filesystem("sector"), fsspec.filesystem("sector", profile=str(profile))] == new
    assert fsspec.filesystem("sector") is new[0]
    monkeypatch.setenv("SECTOR_PROFILE", str(cloud.profile))
    assert fsspec.filesystem("sector") is fs


def test_a_path_that_names_a_cloud_is_refused_and_a_name_may_begin_like_one(fs: Any, folder: str) -> None:
    with pytest.raises(ValueError, match="storage_options"):
        fs.exists("sector://@chicago/a")
    fs.pipe_file("sector:///@chicago", b"a")
    assert fs.cat_file("/@chicago") == b"a"
    fs.rm_file("/@chicago")


def test_bytes_are_read_in_ranges_and_many_at_once(fs: Any, folder: str) -> None:
    fs.pipe({f"{folder}/{name}": name.encode() * 1000 for name in "abc"})
    assert fs.cat_file(f"{folder}/a", 5, 8) == b"aaa" and fs.cat_file(f"{folder}/a", -2) == b"aa"
    ranges = fs.cat_ranges([f"{folder}/a", f"{folder}/b", f"{folder}/a"], [0, 10, 999], [3, 12, 5000])
    assert ranges == [b"aaa", b"bb", b"a"]
    missing = fs.cat_ranges([f"{folder}/none"], [0], [1])
    assert isinstance(missing[0], FileNotFoundError)
    assert fs.cat([f"{folder}/a", f"{folder}/c"])[f"{folder}/c"] == b"c" * 1000


def test_names_are_as_fsspec_wants_them(fs: Any, folder: str) -> None:
    fs.makedirs(f"{folder}/x/y")
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{folder}/x/y")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{folder}/x")
    fs.pipe(f"{folder}/x/f", b"12345")
    details = fs.info(f"{folder}/x/f")
    assert (details["name"], details["size"], details["type"]) == (f"{folder}/x/f", 5, "file")
    assert fs.info(f"{folder}/x")["type"] == "directory" and fs.info("/")["type"] == "directory"
    assert fs.ls(f"{folder}/x", detail=False) == [f"{folder}/x/f", f"{folder}/x/y"]
    assert fs.find(folder) == [f"{folder}/x/f"] and fs.glob(f"{folder}/*/f") == [f"{folder}/x/f"]
    assert fs.du(folder) == 5 and fs.ukey(f"{folder}/x/f") == details["digest"]
    fs.mv(f"{folder}/x/f", f"{folder}/x/g")
    fs.mv(f"{folder}/x/g", f"{folder}/x/y")
    assert fs.find(folder) == [f"{folder}/x/y/g"]
    fs.mv(f"{folder}/x", f"{folder}/z", recursive=True)
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(f"{folder}/z")
    with pytest.raises(NotADirectoryError):
        fs.rmdir(f"{folder}/z/y/g")
    fs.rm(f"{folder}/z", recursive=True)
    assert fs.ls(folder) == []


# Promise 57.
def test_a_transaction_shows_its_files_at_its_end_or_not_at_all(fs: Any, folder: str) -> None:
    with fs.transaction:
        for name in "ab":
            with fs.open(f"{folder}/{name}", "wb") as file:
                file.write(name.encode())
        assert fs.ls(folder) == []
    assert fs.cat(f"{folder}/b") == b"b"
    with pytest.raises(ZeroDivisionError), fs.transaction:
        with fs.open(f"{folder}/c", "wb") as file:
            file.write(b"c")
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), fs.open(f"{folder}/d", "w") as file:
        file.write("text")
        raise ZeroDivisionError
    assert fs.ls(folder, detail=False) == [f"{folder}/a", f"{folder}/b"]


def test_pandas_reads_and_writes(fs: Any, folder: str) -> None:
    import pandas

    frame = pandas.DataFrame({"n": range(1000), "text": [f"ü{number}" for number in range(1000)]})
    frame.to_csv(f"sector:/{folder}/a.csv", index=False)
    pandas.testing.assert_frame_equal(pandas.read_csv(f"sector:/{folder}/a.csv"), frame)
    frame.to_parquet(f"sector:/{folder}/a.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(f"sector:/{folder}/a.parquet"), frame)
    frame.to_json(f"sector:/{folder}/a.json.gz", orient="records", lines=True)
    assert len(pandas.read_json(f"sector:/{folder}/a.json.gz", orient="records", lines=True)) == 1000


def test_pyarrow_reads_and_writes_datasets(fs: Any, folder: str) -> None:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    table = pa.table({"n": range(10_000), "part": [number % 3 for number in range(10_000)]})
    pyarrow.parquet.write_table(table, f"{folder}/one.parquet", filesystem=fs, row_group_size=1000)
    assert pyarrow.parquet.read_table(f"{folder}/one.parquet", filesystem=fs).equals(table)
    pyarrow.dataset.write_dataset(
        table, f"{folder}/set", filesystem=fs, format="parquet", partitioning=["part"], partitioning_flavor="hive"
    )
    dataset = pyarrow.dataset.dataset(f"{folder}/set", filesystem=fs, partitioning="hive")
    assert dataset.count_rows(filter=pyarrow.dataset.field("part") == 1) == 3333
    assert dataset.to_table().sort_by("n")["n"].to_pylist() == list(range(10_000))


def test_pyarrow_takes_addresses_that_name_fsspec(fs: Any, folder: str) -> None:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet

    table = pa.table({"n": range(10)})
    pyarrow.parquet.write_table(table, f"sector:/{folder}/a.parquet", filesystem=fs)
    assert pyarrow.parquet.read_table(f"fsspec+sector:/{folder}/a.parquet").equals(table)
    assert pyarrow.dataset.dataset(f"fsspec+sector:/{folder}/a.parquet").count_rows() == 10
    there, path = pyarrow.fs.FileSystem.from_uri(f"fsspec+sector:/{folder}/a.parquet")
    assert path == f"{folder}/a.parquet" and there.get_file_info(path).is_file
    # What the page says of the shorter address: it is pyarrow that knows no such kind.
    with pytest.raises(pa.ArrowInvalid, match="Unrecognized filesystem"):
        pyarrow.parquet.read_table(f"sector:/{folder}/a.parquet")


def test_duckdb_reads_and_writes(fs: Any, folder: str) -> None:
    import duckdb

    with duckdb.connect() as database:
        database.register_filesystem(fs)
        url = f"sector:/{folder}/t.parquet"
        database.execute(f"copy (select range as n, range % 7 as k from range(5000)) to '{url}' (format parquet)")
        assert database.execute(f"select count(*), sum(n) from '{url}' where k = 3").fetchone() == (714, 1783929)
        database.execute(f"copy (select 1 as a) to 'sector:/{folder}/t.csv' (header)")
        assert fs.cat(f"{folder}/t.csv") == b"a\n1\n"


def test_polars_reads_and_writes(fs: Any, folder: str) -> None:
    import polars

    frame = polars.DataFrame({"n": range(1000), "text": [str(number) for number in range(1000)]})
    with fs.open(f"{folder}/a.parquet", "wb") as file:
        frame.write_parquet(file)
    with fs.open(f"{folder}/a.parquet", "rb") as file:
        assert polars.read_parquet(file).equals(frame)
    with fs.open(f"{folder}/a.csv", "wb") as file:
        frame.write_csv(file)
    with fs.open(f"{folder}/a.csv", "rb") as file:
        assert polars.read_csv(file, schema=frame.schema).equals(frame)
    with fs.open(f"{folder}/a.parquet", "rb") as file:
        assert polars.scan_parquet(file).filter(polars.col("n") > 990).collect().height == 9


def test_dask_reads_and_writes(fs: Any, folder: str) -> None:
    import dask.bag
    import dask.dataframe
    import pandas

    frame = pandas.DataFrame({"n": range(1000)})
    dask.dataframe.from_pandas(frame, npartitions=4).to_parquet(f"sector:/{folder}/set")
    assert len(fs.glob(f"{folder}/set/*.parquet")) == 4
    read = dask.dataframe.read_parquet(f"sector:/{folder}/set")
    assert int(read["n"].sum().compute(scheduler="threads")) == 499_500
    frame.to_csv(f"sector:/{folder}/a.csv", index=False)
    csv = dask.dataframe.read_csv(f"sector:/{folder}/a.csv", blocksize=1000)
    assert csv.npartitions > 1 and int(csv["n"].sum().compute(scheduler="processes")) == 499_500
    lines = dask.bag.read_text(f"sector:/{folder}/a.csv", blocksize=500)
    assert lines.count().compute(scheduler="threads") == 1001


def test_what_pandas_breaks_off_does_not_appear(fs: Any, folder: str, tmp_path: Path) -> None:
    """`to_csv` fails in the middle: pandas closes the file, in the `with` that the exception leaves."""
    import pandas

    class Bad:
        def __str__(self) -> str:
            raise ZeroDivisionError

    frame = pandas.DataFrame({"n": ["good"] * 100_000 + [Bad()]})
    with pytest.raises(ZeroDivisionError), fs.open(f"{folder}/bad.csv", "w") as file:
        frame.to_csv(file)
    assert fs.ls(folder) == []


# Promise 30.
def test_several_files_that_would_become_one_are_refused_before_anything_is_done(
    fs: Any, folder: str, tmp_path: Path
) -> None:
    one, two = f"{folder}/1/x", f"{folder}/2/x"
    fs.pipe({one: b"one", two: b"two"})
    with pytest.raises(ValueError, match="nothing was done"):
        fs.get([one, two], f"{tmp_path}/")
    with pytest.raises(ValueError, match="nothing was done"):
        fs.get([f"{folder}/1", f"{folder}/2"], f"{tmp_path}/", recursive=True)
    assert list(tmp_path.iterdir()) == []
    for verb in (fs.cp, fs.mv):
        with pytest.raises(ValueError, match="nothing was done"):
            verb([one, two], f"{folder}/3/")
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    with pytest.raises(ValueError, match="nothing was done"):
        fs.put([f"{tmp_path}/1/x", f"{tmp_path}/2/x"], f"{folder}/3/")
    assert not fs.exists(f"{folder}/3")
    assert (fs.cat(one), fs.cat(two)) == (b"one", b"two")
    # Each under a name of its own.
    fs.get([one, two], [f"{tmp_path}/a", f"{tmp_path}/b"])
    assert (tmp_path / "b").read_bytes() == b"two"
