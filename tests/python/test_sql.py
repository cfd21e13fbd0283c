"""Tables, SQL and cross-match through the program and from Python. DuckDB and astropy judge the answers."""

import contextlib
import json
import math
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from astropy import units
from astropy.coordinates import SkyCoord, search_around_sky
from astropy.table import Table
from sql_support import Program, compare_tpch, load_tpch, make_tpch, rows, sky

import sector
import sector.sql


@pytest.fixture(scope="module")
def program(cloud: sector.LocalCloud) -> Program:
    return Program(cloud.profile)


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    """A small table with everything that is odd in one."""
    path = tmp_path / "stars.csv"
    path.write_text(
        'id,ra,dec,mag,name\n1,10.5,-20.25,5.5,"a, ""b"""\n2,359.9,89.5,6.5,\n3,0.1,-89.5,,Ä\n4,10.6,-20.24,7.25,d\n'
    )
    return path


def test_a_table_is_made_loaded_and_asked(program: Program, cloud: sector.LocalCloud, folder: str, stars: Path) -> None:
    table = f"{folder}/stars"
    program("table", "create", table, "--like", stars, "--zones", "ra,dec", "--description", "Four stars")
    program("table", "load", table, stars)
    # In zones from the south pole on; the same zone by right ascension.
    found = rows(cloud.sql(f"SELECT * FROM '{table}'"))
    assert [row["id"] for row in found] == [3, 1, 4, 2]
    assert found[0] == {"id": 3, "ra": 0.1, "dec": -89.5, "mag": None, "name": "Ä"}
    assert found[1]["name"] == 'a, "b"'

    said = json.loads(program("table", "describe", table, "--json"))
    assert (said["rows"], said["description"], len(said["slices"])) == (4, "Four stars", 1)
    assert said["columns"][1] == {"name": "ra", "type": "double", "unit": "deg", "ucd": "pos.eq.ra;meta.main"}
    assert said["slices"][0]["ranges"]["dec"] == ["-89.5", "89.5"]
    assert table in program("table", "list", folder)
    program("table", "check", table)

    program("table", "drop", table)
    assert cloud.ls(folder) == []
    assert program.refused("table", "describe", table)[0] == 3


def test_names_of_a_statement_are_paths(program: Program, cloud: sector.LocalCloud, folder: str, stars: Path) -> None:
    program("put", stars, f"{folder}/raw/stars.csv")
    program("table", "create", f"{folder}/t", "--like", stars)
    program("table", "load", f"{folder}/t", stars)
    first = folder.strip("/")
    for name in (
        f"'{folder}/t'",
        f'"{first}".t',
        f"'sector:/{folder}/t'",
        f"'{folder}/raw/stars.csv'",
        f"'{folder}/raw'",
    ):
        assert rows(cloud.sql(f"SELECT count(*) AS n FROM {name}")) == [{"n": 4}], name
    assert cloud.sql("SELECT max(id) FROM t", folder=folder).column(0).to_pylist() == [4]
    code, said = program.refused("sql", f"SELECT * FROM '{folder}/nothing'")
    assert (code, said) == (3, f"sector: there is no table or file `{folder}/nothing`")


def test_every_format_loads_the_same_rows(
    program: Program, cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    table = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "x": [0.1, None, -1e300], "t": ["a", "b c", None]})
    pq.write_table(table, tmp_path / "t.parquet")
    pa.csv.write_csv(table, tmp_path / "t.csv")
    (tmp_path / "t.tsv").write_text((tmp_path / "t.csv").read_text().replace('"', "").replace(",", "\t"))
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    votable = Table({"n": np.array([1, 2, 3], "i4"), "x": [0.1, math.nan, -1e300], "t": ["a", "b c", ""]})
    votable["x"].unit = "km"
    votable.write(tmp_path / "t.vot", format="votable")
    program("table", "create", f"{folder}/t", "--like", tmp_path / "t.parquet", "--key", "n")
    for name in ("t.parquet", "t.csv", "t.tsv", "t.jsonl", "t.vot"):
        program("table", "load", f"{folder}/t", tmp_path / name, "--replace")
        assert rows(cloud.sql(f"SELECT * FROM '{folder}/t'")) == table.to_pylist(), name
    program("table", "create", f"{folder}/v", "--like", tmp_path / "t.vot")
    columns = json.loads(program("table", "describe", f"{folder}/v", "--json"))["columns"]
    assert [(column["name"], column["type"], column.get("unit")) for column in columns] == [
        ("n", "int", None),
        ("x", "double", "km"),
        ("t", "text", None),
    ]


def test_loads_add_or_replace_and_a_failed_one_changes_nothing(
    program: Program, cloud: sector.LocalCloud, folder: str, stars: Path, tmp_path: Path
) -> None:
    table = f"{folder}/t"
    program("table", "create", table, "--like", stars, "--key", "id")
    program("table", "load", table, stars)
    program("table", "load", table, stars, stars)
    assert rows(cloud.sql(f"SELECT count(*) AS n FROM '{table}'")) == [{"n": 12}]
    bad = tmp_path / "bad.csv"
    bad.write_text("id,ra\n" + "1,2\n" * 50_000 + "x,3\n")
    before = cloud.ls(f"{table}/slices")
    code, said = program.refused("table", "load", table, bad, "--replace")
    assert code == 1 and "bad.csv" in said and "'x'" in said
    assert [entry.path for entry in cloud.ls(f"{table}/slices")] == [entry.path for entry in before]
    assert rows(cloud.sql(f"SELECT count(*) AS n FROM '{table}'")) == [{"n": 12}]
    program("table", "load", table, stars, "--replace")
    assert len(cloud.ls(f"{table}/slices")) == 1


def test_loads_at_once_are_all_there(program: Program, cloud: sector.LocalCloud, folder: str, stars: Path) -> None:
    table = f"{folder}/t"
    program("table", "create", table, "--like", stars)
    words = ["sector", "table", "load", table, str(stars)]
    loads = [subprocess.Popen(words, env=program.environment, stdout=subprocess.DEVNULL) for _ in range(6)]
    assert [load.wait(120) for load in loads] == [0] * 6
    assert rows(cloud.sql(f"SELECT count(*) AS n, count(DISTINCT id) AS ids FROM '{table}'")) == [{"n": 24, "ids": 4}]
    program("table", "check", table)


def test_a_query_never_mixes_a_table_with_the_one_that_takes_its_place(
    program: Program, cloud: sector.LocalCloud, folder: str, stars: Path
) -> None:
    table = f"{folder}/t"
    program("table", "create", table, "--like", stars)
    program("table", "load", table, stars)
    lines = f"for i in 1 2 3 4 5 6; do sector table load {table} {stars} {stars} --replace; "
    lines += f"sector table load {table} {stars} --replace; done"
    replacing = subprocess.Popen(["sh", "-ec", lines], env=program.environment, stdout=subprocess.DEVNULL)
    answers = []
    while replacing.poll() is None:
        # Replaced twice while it was read: it says so.
        with contextlib.suppress(FileNotFoundError):
            # Three of four rows have a magnitude.
            answers.append(cloud.sql(f"SELECT count(mag) FROM '{table}'").column(0)[0].as_py())
    assert replacing.returncode == 0
    assert set(answers) <= {3, 6} and len(answers) > 3


def test_tables_of_fits_are_loaded_and_written(
    program: Program, cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    """astropy writes what is loaded, and reads what is written."""
    made = Table(
        {
            "id": np.arange(3, dtype="i4"),
            "ra": np.array([10.5, 359.5, 0.25]) * units.deg,
            "mag": np.array([5.5, np.nan, 7.25], "f4"),
            "name": ["M 31", "", "M 51"],
            "is_far": [True, False, True],
            "box": np.arange(6, dtype="f8").reshape(3, 2),
        }
    )
    made["id"].description = "A number"
    made.write(tmp_path / "in.fits")
    program("table", "create", f"{folder}/t", "--like", tmp_path / "in.fits", "--key", "id")
    program("table", "load", f"{folder}/t", tmp_path / "in.fits")
    columns = {
        column["name"]: column
        for column in json.loads(program("table", "describe", f"{folder}/t", "--json"))["columns"]
    }
    assert {name: column["type"] for name, column in columns.items()} == {
        "id": "int", "ra": "double", "mag": "real", "name": "text", "is_far": "boolean", "box": "List(Float64)"
    }  # fmt: skip
    assert columns["ra"]["unit"] == "deg"
    found = rows(cloud.sql(f"SELECT * FROM '{folder}/t'"))
    assert found[1] == {"id": 1, "ra": 359.5, "mag": None, "name": None, "is_far": False, "box": [2.0, 3.0]}
    for name in ("out.fits", "out.vot"):
        program("sql", f"SELECT *, count(*) OVER () AS n FROM '{folder}/t' ORDER BY id", "--to", tmp_path / name)
        read = Table.read(tmp_path / name)
        assert read["id"].tolist() == [0, 1, 2] and read["n"].tolist() == [3, 3, 3]
        assert read["ra"].tolist() == [10.5, 359.5, 0.25] and read["ra"].unit == units.deg
        assert [str(value).strip() for value in read["name"]][::2] == ["M 31", "M 51"]
        assert np.isnan(np.ma.filled(read["mag"], np.nan)).tolist() == [False, True, False]
        assert [list(map(float, value)) for value in read["box"]] == made["box"].tolist()
    (tmp_path / "bad.fits").write_bytes((tmp_path / "in.fits").read_bytes()[:3000])
    code, why = program.refused("table", "load", f"{folder}/t", tmp_path / "bad.fits")
    assert code == 1 and "bad.fits" in why


def test_a_result_never_replaces_a_pipe_nor_a_link(program: Program, tmp_path: Path) -> None:
    # By root, a rename onto /dev/null leaves a file where every program of the machine wants a device.
    pipe, link, real = tmp_path / "pipe", tmp_path / "link.csv", tmp_path / "real.csv"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    program("sql", "SELECT 1 AS one", "--format", "csv", "--to", pipe)
    assert os.read(reader, 100) == b"one\n1\n"
    os.close(reader)
    assert pipe.is_fifo()
    real.write_text("old\n")
    link.symlink_to(real)
    program("sql", "SELECT 2 AS two", "--to", link)
    assert link.is_symlink() and real.read_text() == "two\n2\n"


def test_a_value_may_have_the_end_of_a_line_in_it(
    program: Program, cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    # Long enough that several threads would each read a part.
    count = 600_000
    (tmp_path / "t.csv").write_text("id,t\n" + "".join(f'{n},"a\n{n},b"\n' for n in range(count)))
    assert (tmp_path / "t.csv").stat().st_size > 11_000_000
    program("put", tmp_path / "t.csv", f"{folder}/t.csv")
    statement = "SELECT count(*) AS n, max(id) AS most, min(t) AS first FROM"
    expected = [{"n": count, "most": count - 1, "first": "a\n0,b"}]
    assert rows(cloud.sql(f"{statement} '{folder}/t.csv'")) == expected
    program("table", "create", f"{folder}/t", "--like", tmp_path / "t.csv")
    program("table", "load", f"{folder}/t", tmp_path / "t.csv")
    assert rows(cloud.sql(f"{statement} '{folder}/t'")) == expected


def test_slices_without_wanted_rows_are_not_opened(
    program: Program, cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(5)
    count = 300_000
    pq.write_table(pa.table({"k": np.arange(count), "x": random.random(count)}), tmp_path / "t.parquet")
    table = f"{folder}/t"
    program("table", "create", table, "--like", tmp_path / "t.parquet", "--key", "k")
    program("table", "load", table, tmp_path / "t.parquet", "--slice-size", "500kB")
    slices = json.loads(program("table", "describe", table, "--json"))["slices"]
    assert len(slices) > 3
    last = slices[-1]
    text = program("sql", f"EXPLAIN ANALYZE SELECT sum(x) FROM '{table}' WHERE k >= {last['ranges']['k'][0]}")
    read = [line.split()[0] for line in text.splitlines() if line.startswith(f"{table}/slices/")]
    assert read == [f"{table}/{last['file']}"]
    assert "this machine" in text


def test_results_are_written_in_every_format(
    program: Program, cloud: sector.LocalCloud, folder: str, stars: Path, tmp_path: Path
) -> None:
    program("put", stars, f"{folder}/stars.csv")
    statement = f"SELECT id, mag, name FROM '{folder}/stars.csv' ORDER BY id"
    expected = rows(cloud.sql(statement))
    readers = {
        "csv": lambda path: duckdb.sql(f"FROM read_csv('{path}', nullstr='')").to_arrow_table(),
        "parquet": pq.read_table,
        "arrow": lambda path: pa.ipc.open_file(path).read_all(),
        "jsonl": lambda path: pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()]),
        "json": lambda path: pa.Table.from_pylist(json.loads(path.read_text())),
    }
    for ending, read in readers.items():
        path = tmp_path / f"out.{ending}"
        program("sql", statement, "--to", path)
        assert rows(read(path)) == expected, ending
    assert json.loads(program("sql", statement, "--json")) == expected
    assert program("sql", "-", "--format", "csv", given=statement).startswith("id,mag,name\n1,5.5,")
    assert "NULL" in program("sql", statement)
    shown = program.ended("sql", statement, "--rows", "2")
    assert len(shown.stdout.splitlines()) == 3 and "the first 2 rows" in shown.stderr


def test_what_is_asked_wrongly_is_said(
    program: Program, cloud: sector.LocalCloud, folder: str, stars: Path, tmp_path: Path
) -> None:
    table = f"{folder}/t"
    program("table", "create", table, "--like", stars)
    (tmp_path / "other.csv").write_text("id,colour\n1,red\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "bad.parquet").write_bytes(os.urandom(2000))
    (tmp_path / "stars.csv.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "bad.vot").write_text("<VOTABLE><TABLE>")
    for words, code, sentence in [
        (["sql", f"SELECT nope FROM '{table}'"], 2, "there is no column `nope`; there are id, ra, dec, mag, name"),
        (["sql", "SELEC 1"], 2, "Expected: an SQL statement"),
        (["sql", "SELECT nope(value) FROM generate_series(1, 3)"], 2, "Invalid function 'nope'"),
        (["sql", f"SELECT 1 INTO x FROM '{table}'"], 2, "not supported"),
        (["sql", "SELECT 1; SELECT 2"], 2, "single SQL statement"),
        (["sql", " "], 2, "the statement is empty"),
        (["sql", f"INSERT INTO '{table}' VALUES (1)"], 2, "statements only read"),
        (["sql", f"COPY '{table}' TO 'x.csv'"], 2, "statements only read"),
        (["sql", "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'"], 2, "statements only read"),
        (["sql", "SET datafusion.execution.batch_size = 1"], 2, "statements only read"),
        (["sql", "SELECT * FROM '/etc/passwd'"], 3, "there is no table or file `/etc/passwd`"),
        (["sql", f"SELECT * FROM '{folder}'"], 2, "is no table"),
        (["sql", "SELECT 1", "--to", str(tmp_path / "x.txt")], 2, "does not say a format"),
        (["sql", "SELECT 1", "--to", str(tmp_path / "no" / "x.csv")], 3, "No such file"),
        (["sql", "SELECT 1", "--memory", "1MB"], 2, "--memory"),
        (["table", "create", table, "--like", str(stars)], 7, "exists already, and is a table"),
        (["table", "create", f"{folder}/b", "--column", "a:blob9"], 2, "unknown type `blob9`"),
        (
            ["table", "create", f"{folder}/b", "--column", "a:int", "--column", "A:int", "--key", "b"],
            2,
            "no such column",
        ),
        (["table", "create", f"{folder}/b", "--like", str(stars), "--zones", "name,dec"], 2, "zones need degrees"),
        (["table", "load", f"{folder}/none", str(stars)], 3, "make it with `sector table create"),
        (["table", "load", table, str(tmp_path / "missing.csv")], 3, "No such file"),
        (["table", "load", table, f"sector:/{folder}/*.csv"], 3, "nothing in Sector matches"),
        (["table", "load", table, str(tmp_path / "other.csv")], 2, "the table has no column colour"),
        (["table", "load", table, str(tmp_path / "empty.csv")], 1, "it is empty"),
        (["table", "load", table, str(tmp_path / "bad.parquet")], 1, "Parquet"),
        (["table", "load", table, str(tmp_path / "stars.csv.gz")], 2, "unpack it first"),
        (["table", "load", table, str(tmp_path / "bad.vot")], 1, "VOTable"),
        (["table", "drop", folder], 3, "there is no table"),
        (["xmatch", table, table, "--radius", "2"], 2, "with its unit"),
        (["xmatch", table, f"{folder}/none", "--radius", "2arcsec"], 3, "there is no table or file"),
        (["xmatch", table, table, "--radius", "0arcsec"], 2, "no radius"),
    ]:
        found, said = program.refused(*words)
        assert (found, sentence in said) == (code, True), (words, found, said)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    assert rows(cloud.sql(f"SELECT count(*) AS n FROM '{table}'")) == [{"n": 0}]
    with pytest.raises(ValueError, match="there is no column"):
        cloud.sql(f"SELECT nope FROM '{table}'")
    with pytest.raises(FileNotFoundError, match="there is no table"):
        cloud.sql("SELECT * FROM '/nothing'")


def test_check_finds_what_is_wrong_with_slices(
    program: Program, cloud: sector.LocalCloud, folder: str, stars: Path, tmp_path: Path
) -> None:
    table = f"{folder}/t"
    program("table", "create", table, "--like", stars, "--key", "id")
    for _ in range(4):
        program("table", "load", table, stars)
    slices = [entry.path for entry in cloud.ls(f"{table}/slices")]
    content = cloud.read_bytes(slices[0])
    cloud.remove(slices[0])
    code, said = program.refused("sql", f"SELECT sum(mag) FROM '{table}'")
    assert (code, slices[0] in said) == (3, True), "what is missing is said, and is no smaller answer"
    cloud.write_bytes(slices[1], content[:-1] + b"X")
    cloud.write_bytes(slices[2], b"short")
    cloud.write_bytes(f"{table}/slices/other.parquet", content)
    done = program.ended("table", "check", table, "--json")
    assert done.returncode == 6
    problems = {problem["path"]: problem["problem"] for problem in json.loads(done.stdout)["problems"]}
    assert problems[slices[0]] == "is not there"
    assert "cannot be read as Parquet" in problems[slices[1]]
    assert "5 bytes instead of" in problems[slices[2]]
    assert "is no slice of the table" in problems[f"{table}/slices/other.parquet"]
    assert len(problems) == 4
    # A query never leaves out what it cannot read.
    assert program.refused("sql", f"SELECT count(mag) FROM '{table}'")[0] != 0


def test_a_table_is_seen_by_who_may_read_its_folder(
    program: Program, cloud: sector.LocalCloud, folder: str, stars: Path, tmp_path: Path
) -> None:
    for name in ("open", "closed"):
        program("table", "create", f"{folder}/{name}", "--like", stars)
        program("table", "load", f"{folder}/{name}", stars)
    program("user", "add", "sqluser", "--password-stdin", given="correct horse")
    profile = tmp_path / "sqluser.toml"
    program("login", "sqluser", "--profile", profile, "--password-stdin", given="correct horse")
    cloud.set_acl(f"{folder}/closed", {f"user:{cloud.user}": "rwx"})
    other = Program(profile)
    assert "4" in other("sql", f"SELECT count(*) FROM '{folder}/open'")
    for words in (
        ["sql", f"SELECT * FROM '{folder}/closed'"],
        ["sql", f"SELECT * FROM xmatch('{folder}/open', '{folder}/closed', 5)"],
        ["table", "describe", f"{folder}/closed"],
        ["table", "load", f"{folder}/open", stars],
        ["table", "drop", f"{folder}/open"],
    ):
        assert other.refused(*words)[0] == 4, words
    assert rows(cloud.sql(f"SELECT count(*) AS n FROM '{folder}/open'")) == [{"n": 4}]


def test_what_does_not_fit_into_memory_goes_to_disk_or_ends(
    program: Program, cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(6)
    numbers = random.integers(0, 1 << 62, 1_500_000)
    pq.write_table(pa.table({"k": numbers, "t": [f"text {number}" for number in numbers]}), tmp_path / "t.parquet")
    program("put", tmp_path / "t.parquet", f"{folder}/t.parquet")
    statement = f"SELECT k, t FROM '{folder}/t.parquet' ORDER BY k"
    keys = np.concatenate(
        [batch.column("k").to_numpy() for batch in sector.sql.batches(statement, cloud=cloud, memory=64_000_000)]
    )
    assert np.array_equal(keys, np.sort(numbers))
    code, said = program.refused(
        "sql", statement, "--memory", "64MB", "--spill", "1MB", "--format", "csv", "--to", tmp_path / "o"
    )
    assert code == 1 and "--spill" in said
    assert not (tmp_path / "o").exists()


def test_who_stops_in_the_middle_ends_the_query(program: Program, cloud: sector.LocalCloud) -> None:
    statement = "SELECT a.value, b.value FROM generate_series(1, 100000) a, generate_series(1, 1000000) b"
    found = sector.sql.batches(statement, cloud=cloud)
    assert next(found).num_rows > 0
    found.close()  # type: ignore[attr-defined]
    words = ["sector", "sql", statement, "--format", "csv"]
    process = subprocess.Popen(words, env=program.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(1000)
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.wait(60) == 130
    assert b"cancelled" in process.stderr.read()


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tpch(tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def tpch_cloud(program: Program, cloud: sector.LocalCloud, tpch: Path) -> Iterator[sector.LocalCloud]:
    load_tpch(program, tpch, "/tpch")
    yield cloud
    cloud.remove("/tpch", recursive=True)


def test_all_answers_to_tpch_are_those_of_duckdb(tpch_cloud: sector.LocalCloud, tpch: Path) -> None:
    compare_tpch(lambda statement: tpch_cloud.sql(statement, folder="/tpch"), tpch)


@pytest.mark.parametrize("arcsec", [0.5, 10.0, 60.0, 3600.0])
def test_pairs_are_those_of_astropy(
    program: Program, cloud: sector.LocalCloud, folder: str, tmp_path: Path, arcsec: float
) -> None:
    # Dense at the poles: with a large radius nearly all of them are pairs there.
    count = 3000 if arcsec < 30 else 300
    one, other = sky(count, 1), sky(count, 2)
    for name, table in (("one", one), ("other", other)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        program("table", "create", f"{folder}/{name}", "--like", tmp_path / f"{name}.parquet", "--zones", "ra,dec")
        program("table", "load", f"{folder}/{name}", tmp_path / f"{name}.parquet", "--slice-size", "100kB")
    places = [
        SkyCoord(table["ra"].to_numpy() * units.deg, table["dec"].to_numpy() * units.deg) for table in (one, other)
    ]
    left, right, separations, _ = search_around_sky(*places, arcsec * units.arcsec)
    expected = {(a, b): c for a, b, c in zip(left.tolist(), right.tolist(), separations.arcsec.tolist(), strict=True)}
    assert len(expected) > 100
    found = cloud.sql(f"SELECT id, id_2, sep_arcsec FROM xmatch('{folder}/one', '{folder}/other', {arcsec})")
    pairs = dict(
        zip(
            zip(found["id"].to_pylist(), found["id_2"].to_pylist(), strict=True),
            found["sep_arcsec"].to_pylist(),
            strict=True,
        )
    )
    assert len(pairs) == found.num_rows, "each pair once"
    assert pairs.keys() == expected.keys()
    assert max(abs(pairs[pair] - expected[pair]) for pair in pairs) < 1e-6

    path = tmp_path / "best.parquet"
    program("xmatch", f"{folder}/one", f"{folder}/other", "--radius", f"{arcsec}arcsec", "--best", "--to", path)
    best = pq.read_table(path)
    assert best.column_names == ["id", "ra", "dec", "id_2", "ra_2", "dec_2", "sep_arcsec"]
    nearest, distance, _ = places[0].match_to_catalog_sky(places[1])
    wanted = {row: other for row, other in enumerate(nearest.tolist()) if distance[row].arcsec <= arcsec}
    assert dict(zip(best["id"].to_pylist(), best["id_2"].to_pylist(), strict=True)) == wanted


def test_files_without_a_description_are_matched_too(
    program: Program, cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("name,RAJ2000,DEJ2000\nx,10.0,20.0\ny,,20.0\nz,10.0,95\n")
    (tmp_path / "b.csv").write_text("ra,dec\n10.0001,20.0\n370.0,20.00001\n190,20\n")
    for name in ("a", "b"):
        program("put", tmp_path / f"{name}.csv", f"{folder}/{name}.csv")
    statement = f"SELECT name, count(*) AS n FROM xmatch('{folder}/a.csv', '{folder}/b.csv', 1) GROUP BY name"
    assert rows(cloud.sql(statement)) == [{"name": "x", "n": 2}]
    code, said = program.refused("xmatch", f"{folder}/a.csv", f"{folder}/t.csv", "--radius", "1arcsec")
    assert (code, "there is no table or file" in said) == (3, True)
