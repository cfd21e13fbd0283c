"""MalStone's answers are those of a statement in SQL, over the records that MalGen made.

With `MALSTONE_RECORDS=10000000` it is the long run; `docs/paths/malstone.md` has the command.
"""

import json
import os
import subprocess
from pathlib import Path

import duckdb
import pytest

import sector

RECORDS = int(os.environ.get("MALSTONE_RECORDS", "200000"))

LOG = """
    create table log as select * from read_csv(?, delim = '|', header = false, columns = {
        'event': 'varchar', 'time': 'timestamp', 'site': 'bigint', 'flag': 'int', 'entity': 'bigint'})
"""
# For each entity and site the first visit, and the entity's first flag at or after it, wherever that was.
VISITS = """
    create table visits as
        select visit.site, visit.entity, visit.first, flagged.time as marked
        from (select site, entity, min(time) as first from log group by site, entity) visit
        asof left join (select entity, time from log where flag = 1) flagged
            on flagged.entity = visit.entity and visit.first <= flagged.time
"""
TOTALS = "select site, count(marked), count(*) from visits group by site order by site"
EVENT_TOTALS = "select site, count(*) filter (flag = 1), count(*) from log group by site order by site"
WEEKS = """
    select site, week, count(*) filter ({marked} < timestamp '2009-01-01' + 7 * week * interval 1 day) as marked,
        count(*) filter ({first} < timestamp '2009-01-01' + 7 * week * interval 1 day) as visitors
    from {table}, range(1, 54) weeks(week) group by site, week having visitors > 0 order by site, week
"""


@pytest.fixture(scope="module")
def log(cloud: sector.LocalCloud) -> str:
    sites = ["--sites", "2000", "--marked", "100", "--entities", "5000"]
    run_oct(cloud, "malgen", "--records", str(RECORDS), *sites, "/malstone/log")
    return "/malstone/log"


@pytest.fixture(scope="module")
def database(cloud: sector.LocalCloud, log: str, tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    folder = tmp_path_factory.mktemp("log")
    for number, path in enumerate(cloud.glob(f"{log}/*")):
        (folder / str(number)).write_bytes(cloud.read_bytes(path))
    database = duckdb.connect()
    database.execute(LOG, [str(folder / "*")])
    database.execute(VISITS)
    return database


def run_oct(cloud: sector.LocalCloud, *arguments: str) -> None:
    """`sector oct …` in this cloud."""
    environment = {**os.environ, "SECTOR_PROFILE": str(cloud.profile)}
    subprocess.run(["sector", "oct", *arguments, "--json"], env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("variant", "more", "statement"),
    [
        ("a", [], TOTALS),
        ("a", ["--per-event"], EVENT_TOTALS),
        ("b", [], WEEKS.format(table="visits", marked="marked", first="first")),
        ("b", ["--per-event"], WEEKS.format(table="log", marked="case when flag = 1 then time end", first="time")),
    ],
)
def test_the_answer_is_that_of_a_statement_in_sql(
    cloud: sector.LocalCloud,
    log: str,
    database: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    variant: str,
    more: list[str],
    statement: str,
) -> None:
    output = f"/malstone/{variant}{len(more)}"
    run_oct(cloud, "malstone", variant, log, output, "--slices", "3", *more)
    found: list[list[str]] = []
    for path in cloud.glob(f"{output}/*"):
        head, *lines = cloud.read_bytes(path).decode().splitlines()
        assert head.startswith("site,week," if variant == "b" else "site,") and head.endswith(",ratio")
        found.extend(line.split(",") for line in lines)
    expected = database.execute(statement).fetchall()
    assert len(expected) > 1000
    assert [tuple(map(int, numbers)) for *numbers, _ in found] == expected
    ratios = [(float(ratio), marked / count) for (*_, ratio), (*_, marked, count) in zip(found, expected, strict=True)]
    assert all(abs(found - exact) <= 5.1e-7 for found, exact in ratios)
    assert any(0 < exact < 1 for _, exact in ratios), json.dumps(ratios[:9])
