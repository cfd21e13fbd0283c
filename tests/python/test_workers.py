"""`sector worker`: parts of queries run beside the nodes. DuckDB and astropy judge the answers; programs are killed and
connections cut in between."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from astropy import units
from astropy.coordinates import SkyCoord, search_around_sky
from services import started
from sql_support import Program, compare_tpch, load_tpch, make_tpch, rows, sky

import sector

# Everything is cut into parts, however small it is.
ALL = ["--workers-from", "0"]


@pytest.fixture(scope="module")
def program(cloud: sector.LocalCloud) -> Program:
    return Program(cloud.profile)


@pytest.fixture(scope="module")
def workers(cloud: sector.LocalCloud) -> Iterator[list[str]]:
    with started(cloud, "worker") as (one, _), started(cloud, "worker") as (other, _):
        yield [one, other]


def at(workers: list[str]) -> list[str]:
    return ["--workers", ",".join(workers), *ALL]


@pytest.fixture(scope="module")
def numbers(program: Program, cloud: sector.LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table of a million rows in slices, which the nodes have."""
    path = tmp_path_factory.mktemp("numbers") / "t.parquet"
    count = 1_000_000
    text = pa.array([f"{number * 7919 % count:07}" for number in range(count)])
    pq.write_table(pa.table({"n": pa.array(range(count)), "t": text}), path)
    program("table", "create", "/workers/numbers", "--like", path)
    program("table", "load", "/workers/numbers", path, "--slice-size", "1MB")
    yield "'/workers/numbers'"
    cloud.remove("/workers", recursive=True)


def test_all_answers_to_tpch_are_those_of_duckdb(
    program: Program, cloud: sector.LocalCloud, workers: list[str], tmp_path: Path
) -> None:
    tpch = make_tpch(tmp_path)
    load_tpch(program, tpch, "/tpch-workers")

    def ask(statement: str) -> pa.Table:
        path = tmp_path / "answer.parquet"
        program("sql", statement, "--folder", "/tpch-workers", "--to", path, *at(workers))
        return pq.read_table(path)

    compare_tpch(ask, tpch)
    cloud.remove("/tpch-workers", recursive=True)


def test_each_worker_reads_slices_and_who_asked_reads_none(program: Program, workers: list[str], numbers: str) -> None:
    said = program("sql", f"EXPLAIN ANALYZE SELECT count(*), max(t), sum(n) FROM {numbers}", *at(workers))
    readers: dict[str, list[str]] = {}
    for line in said.splitlines():
        words = line.split()
        if len(words) > 1 and words[1].startswith("/workers/numbers/"):
            readers.setdefault(words[0], []).append(words[1])
            assert "this machine" in line
    assert readers.keys() == set(workers)
    slices = [name for names in readers.values() for name in names]
    assert len(slices) == len(set(slices)) > 4, "each slice is read once"
    assert abs(len(readers[workers[0]]) - len(readers[workers[1]])) <= 1


def test_what_is_small_and_near_stays_in_one_piece(program: Program, workers: list[str], numbers: str) -> None:
    said = program("sql", f"EXPLAIN SELECT sum(n) FROM {numbers}", "--workers", ",".join(workers))
    assert "Distributed" not in said
    said = program("sql", f"EXPLAIN SELECT sum(n) FROM {numbers}", *at(workers))
    assert "Distributed" in said


@pytest.mark.parametrize("arcsec", [1.0, 600.0])
def test_pairs_are_those_of_astropy(
    program: Program, cloud: sector.LocalCloud, workers: list[str], folder: str, tmp_path: Path, arcsec: float
) -> None:
    one, other = sky(1500, 5), sky(1500, 6)
    for name, table in (("one", one), ("other", other)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        program("table", "create", f"{folder}/{name}", "--like", tmp_path / f"{name}.parquet", "--zones", "ra,dec")
        program("table", "load", f"{folder}/{name}", tmp_path / f"{name}.parquet", "--slice-size", "100kB")
    places = [SkyCoord(table["ra"].to_numpy(), table["dec"].to_numpy(), unit="deg") for table in (one, other)]
    left, right, _, _ = search_around_sky(*places, arcsec * units.arcsec)
    expected = sorted(zip(left.tolist(), right.tolist(), strict=True))
    assert expected
    words = ["xmatch", f"{folder}/one", f"{folder}/other", "--radius", f"{arcsec}arcsec", "--columns", "id,id_2"]
    program(*words, "--to", tmp_path / "pairs.parquet", *at(workers))
    found = pq.read_table(tmp_path / "pairs.parquet")
    assert sorted(zip(found["id"].to_pylist(), found["id_2"].to_pylist(), strict=True)) == expected
    join = f"""SELECT count(*) AS n, min(a.id) AS first FROM '{folder}/one' a JOIN '{folder}/other' b
        ON sky_distance(a.ra, a.dec, b.ra, b.dec) < {arcsec / 3600!r}"""
    said = program("sql", f"EXPLAIN {join}", *at(workers))
    assert "MatchExec" in said and "Distributed" in said
    assert json.loads(program("sql", join, "--json", *at(workers))) == [
        {"n": len(expected), "first": min(pair[0] for pair in expected)}
    ]


def test_small_tables_are_read_once_whatever_stands_above_them(
    program: Program, cloud: sector.LocalCloud, folder: str, workers: list[str], tmp_path: Path
) -> None:
    judge = duckdb.connect()
    for name, count in (("small", 1000), ("more", 300_000)):
        rows = pa.table({"n": pa.array(range(count)), "k": pa.array([number % 7 for number in range(count)])})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        program("table", "create", f"{folder}/{name}", "--like", tmp_path / f"{name}.parquet")
        program("table", "load", f"{folder}/{name}", tmp_path / f"{name}.parquet", "--slice-size", "400kB")
        judge.sql(f"CREATE VIEW {name} AS FROM '{tmp_path / name}.parquet'")
    limited = "count(*) FROM (SELECT n FROM more LIMIT 10) a CROSS JOIN (SELECT n FROM small LIMIT 3) b"
    recursive = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n + 1 FROM r JOIN small t ON t.n = r.n"
    with started(cloud, "worker") as (third, _), started(cloud, "worker") as (fourth, _):
        for statement in [
            "SELECT sum(n), min(k), count(k) FROM small",
            "SELECT s.m, count(*) FROM more CROSS JOIN (SELECT sum(n) AS m FROM small) s GROUP BY s.m",
            "SELECT sum(n) AS s FROM small UNION ALL SELECT sum(n) FROM more ORDER BY s",
            "SELECT k, count(*) FROM (SELECT k FROM small UNION ALL SELECT k FROM more) GROUP BY k ORDER BY k",
            f"SELECT {limited}",
            "SELECT b.k, b.s, count(*) FROM more m JOIN (SELECT k, sum(n) AS s FROM small GROUP BY k) b "
            "ON m.k = b.k GROUP BY b.k, b.s ORDER BY b.k",
            "SELECT count(*) FROM more WHERE n IN (SELECT max(n) FROM small)",
            "SELECT n, row_number() OVER (ORDER BY n DESC) FROM small ORDER BY n LIMIT 5",
            "SELECT n FROM more ORDER BY n DESC LIMIT 5 OFFSET 2",
            "SELECT count(DISTINCT k), count(DISTINCT n) FROM more",
            f"{recursive} WHERE r.n < 9) SELECT sum(n) FROM r",
            "SELECT count(*) FROM small LEFT JOIN more ON small.n = more.n AND more.k = 3 WHERE more.n IS NULL",
            "SELECT count(*) FROM more FULL JOIN small ON small.n = more.n + 500",
            "SELECT count(*) FROM small WHERE NOT EXISTS (SELECT 1 FROM more WHERE more.n = small.n * 1000)",
        ]:
            expected = judge.sql(statement).fetchall()
            for options in ([], ["--threads", "1"], ["--threads", "3"]):
                given = ["--folder", folder, "--json", *options, *at([*workers, third, fourth])]
                found = [tuple(row.values()) for row in json.loads(program("sql", statement, *given))]
                assert found == expected, (statement, options)


class Cut:
    """A connection to a worker that breaks, and stays broken, once so many bytes have come from there."""

    def __init__(self, url: str, count: int) -> None:
        host, port = url.removeprefix("http://").split(":")
        self.worker, self.left = (host, int(port)), count
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.open: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.worker)
                self.open += [near, far]
                threading.Thread(target=self.pass_on, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self.pass_on, args=(far, near, True), daemon=True).start()

    def pass_on(self, source: socket.socket, target: socket.socket, is_counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                target.sendall(data)
                self.left -= len(data) if is_counted else 0
                if self.left <= 0:
                    self.close()

    def close(self) -> None:
        # Who waits in a call must wake up.
        for end in [self.listener, *self.open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_a_worker_that_goes_away_is_done_without(program: Program, workers: list[str], numbers: str) -> None:
    statement = f"SELECT n % 1000 AS k, count(*) AS c, min(t) AS t FROM {numbers} GROUP BY k ORDER BY k"
    expected = program("sql", statement, "--format", "csv")
    cut = Cut(workers[1], 5_000)
    done = program.ended("sql", statement, "--format", "csv", *at([workers[0], cut.url]))
    assert cut.left <= 0, "it broke in the middle"
    assert (done.returncode, done.stdout) == (0, expected)
    assert f"goes on without the worker {cut.url}" in done.stderr


def test_rows_that_were_given_out_are_never_taken_for_all(program: Program, workers: list[str], numbers: str) -> None:
    cut = Cut(workers[1], 2_000_000)
    done = program.ended("sql", f"SELECT n, t FROM {numbers}", "--format", "csv", *at([workers[0], cut.url]))
    assert cut.left <= 0
    assert done.returncode == 5 and f"the worker {cut.url} does not go on" in done.stderr
    assert 0 < len(done.stdout.splitlines()) < 1_000_001


def test_a_file_appears_whole_though_a_worker_goes_away(
    program: Program, workers: list[str], numbers: str, tmp_path: Path
) -> None:
    cut = Cut(workers[1], 2_000_000)
    program("sql", f"SELECT n, t FROM {numbers}", "--to", tmp_path / "all.parquet", *at([workers[0], cut.url]))
    assert cut.left <= 0
    assert sorted(pq.read_table(tmp_path / "all.parquet")["n"].to_pylist()) == list(range(1_000_000))


def test_a_query_goes_on_without_those_that_do_not_answer(
    program: Program, cloud: sector.LocalCloud, workers: list[str], numbers: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody = f"127.0.0.1:{silent.getsockname()[1]}"
    with started(cloud, "worker") as (stopped, process):
        process.kill()
        process.wait()
        done = program.ended("sql", f"SELECT sum(n) AS n FROM {numbers}", "--json", *at([nobody, stopped, workers[0]]))
    expected = [{"n": 499_999_500_000}]
    assert (done.returncode, json.loads(done.stdout)) == (0, expected)
    assert f"goes on without the worker http://{nobody}" in done.stderr and stopped in done.stderr
    # None at all: it runs where it is asked.
    done = program.ended("sql", f"SELECT sum(n) AS n FROM {numbers}", "--json", *at([nobody]))
    assert (done.returncode, json.loads(done.stdout)) == (0, expected)


def test_parts_read_with_the_rights_of_who_asks(
    program: Program, cloud: sector.LocalCloud, workers: list[str], folder: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": pa.array(range(50_000))}), path)
    for name in ("open", "closed"):
        program("table", "create", f"{folder}/{name}", "--like", path)
        program("table", "load", f"{folder}/{name}", path, "--slice-size", "100kB")
    program("user", "add", "partuser", "--password-stdin", given="correct horse")
    profile = tmp_path / "partuser.toml"
    program("login", "partuser", "--profile", profile, "--password-stdin", given="correct horse")
    other = Program(profile)
    assert json.loads(other("sql", f"SELECT sum(n) AS n FROM '{folder}/open'", "--json", *at(workers))) == [
        {"n": 1_249_975_000}
    ]
    cloud.set_acl(f"{folder}/closed", {f"user:{cloud.user}": "rwx"})
    assert other.refused("sql", f"SELECT sum(n) FROM '{folder}/closed'", *at(workers))[0] == 4
    # A slice that may be listed and not read: the worker is refused, and the reason comes back.
    slices = [entry.path for entry in cloud.ls(f"{folder}/open/slices")]
    cloud.set_acl(slices[0], {f"user:{cloud.user}": "rwx"})
    code, why = other.refused("sql", f"SELECT sum(n) FROM '{folder}/open'", *at(workers))
    assert code == 4 and slices[0] in why, why


def test_nobody_gets_an_answer_without_a_login(workers: list[str]) -> None:
    for path in ("/worker/version", "/worker/reads/x"):
        assert requests.get(f"{workers[0]}{path}", timeout=30).status_code == 401
        assert requests.get(f"{workers[0]}{path}", auth=("root", "0" * 64), timeout=30).status_code == 401
    for login in ([], ["--user", "root:" + "0" * 64]):
        typed = ["curl", "--silent", "--http2-prior-knowledge", "--include", *login, "--data-binary", ""]
        typed += ["--header", "content-type: application/grpc", f"{workers[0]}/worker.WorkerService/ExecuteTask"]
        said = subprocess.run(typed, capture_output=True, text=True, check=True).stdout
        assert "grpc-status: 16" in said, said


def test_a_slice_that_is_gone_is_said(
    program: Program, cloud: sector.LocalCloud, workers: list[str], folder: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": pa.array(range(50_000))}), path)
    program("table", "create", f"{folder}/t", "--like", path)
    program("table", "load", f"{folder}/t", path, "--slice-size", "100kB")
    gone = sorted(entry.path for entry in cloud.ls(f"{folder}/t/slices"))[1]
    cloud.remove(gone)
    code, why = program.refused("sql", f"SELECT sum(n) FROM '{folder}/t'", *at(workers))
    assert code == 3 and gone in why, why


def test_what_is_asked_wrongly_is_said(program: Program, workers: list[str], numbers: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for words, why in [
        (["--workers", "node7"], "it ends with a port"),
        (["--workers", "ftp://node7:21"], "it begins with https"),
        (["--workers", "http://node7:7083"], "as readable text"),
        (["--workers", "127.0.0.1:7083,node7:7083"], "this machine alone"),
        (["--workers", workers[0], "--workers-authority", str(empty)], "no certificate"),
    ]:
        code, said = program.refused("sql", "SELECT 1", *words)
        assert code == 2 and why in said, said
    done = program.ended("sql", f"SELECT no_such_column FROM {numbers}", *at(workers))
    assert done.returncode == 2 and "there is no column `no_such_column`" in done.stderr
    done = program.ended("sql", f"SELECT CAST(t || 'x' AS BIGINT) FROM {numbers}", *at(workers), "--format", "csv")
    assert done.returncode == 1 and "Cast error" in done.stderr


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine that vouches for itself, and its key."""
    made, key = folder / "c.pem", folder / "k.pem"
    typed: list[object] = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    typed += ["-keyout", key, "-out", made, "-days", "2", "-subj", "/CN=localhost"]
    typed += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*map(str, typed)], check=True, capture_output=True)
    return made, key


def test_a_worker_is_trusted_by_its_certificate(
    program: Program, cloud: sector.LocalCloud, numbers: str, tmp_path: Path
) -> None:
    made, key = certificate(tmp_path)
    with started(cloud, "worker", "--certificate", str(made), "--key", str(key)) as (url, _):
        assert url.startswith("https://")
        assert ssl.get_server_certificate(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        statement = f"EXPLAIN ANALYZE SELECT sum(n) FROM {numbers}"
        trusted = program.ended("sql", statement, *at([url]), "--workers-authority", made)
        assert trusted.returncode == 0 and f"\n{url} " in trusted.stdout and not trusted.stderr
        unknown = program.ended("sql", statement, *at([url]))
        assert (
            unknown.returncode == 0 and f"goes on without the worker {url}: invalid peer certificate" in unknown.stderr
        )


def test_tap_has_its_queries_run_by_workers_and_does_without_one_that_goes_away(
    cloud: sector.LocalCloud, workers: list[str], numbers: str, folder: str
) -> None:
    # More than it says when it is greeted.
    cut = Cut(workers[1], 5_000)
    used = at([workers[0], cut.url])
    with started(cloud, "tap", "--tables", "/workers", "--folder", f"{folder}/jobs", *used) as (url, _):
        login = (cloud.user, tomllib.loads(Path(cloud.profile).read_text())["token"])
        rows = 'SELECT MOD(n, 1000) AS k, n, t FROM workers."numbers"'
        query = f"SELECT k, SUM(n) AS s, MAX(t) AS t FROM ({rows}) x GROUP BY k ORDER BY k"
        form = {"LANG": "ADQL", "FORMAT": "csv", "QUERY": query}
        answer = requests.post(f"{url}/sync", data=form, auth=login, timeout=60)
    assert cut.left <= 0, "a part ran there"
    found = answer.text.split()
    assert (len(found), found[0], found[1]) == (1001, "k,s,t", "0,499500000,0999000"), answer.text[:500]


def test_the_variable_names_workers_for_python_too(
    cloud: sector.LocalCloud, workers: list[str], numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Cut(workers[1], 1 << 40)
    monkeypatch.setenv("SECTOR_WORKERS", f"{workers[0]},{seen.url}")
    assert rows(cloud.sql(f"SELECT count(*) AS n FROM {numbers} WHERE n >= 999000")) == [{"n": 1000}]
    assert seen.left < 1 << 40, "a worker was asked"
    seen.close()
