"""What tests of SQL share: the program as its users type it, TPC-H, and a sky that is dense where it is difficult."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tpch_queries import QUERIES

TPCH_TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


class Program:
    """The program, as a user of the cloud."""

    def __init__(self, profile: Path) -> None:
        self.environment = {**os.environ, "SECTOR_PROFILE": str(profile)}

    def __call__(self, *words: object, given: str | None = None) -> str:
        """What it prints; it must succeed."""
        done = self.ended(*words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ended(self, *words: object, given: str | None = None) -> subprocess.CompletedProcess[str]:
        typed = ["sector", *map(str, words)]
        return subprocess.run(
            typed, env=self.environment, input=given, capture_output=True, text=True, check=False, timeout=120
        )

    def refused(self, *words: object) -> tuple[int, str]:
        """The exit code, and what it says."""
        done = self.ended(*words)
        assert done.returncode != 0, done.stdout
        return done.returncode, done.stderr.strip()


def rows(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def make_tpch(path: Path) -> Path:
    """TPC-H at a hundredth of its unit, by a generator that nobody here wrote."""
    subprocess.run(["tpchgen-cli", "parquet", "-s", "0.01", f"--output-dir={path}"], check=True, capture_output=True)
    return path


def load_tpch(program: Program, tpch: Path, folder: str) -> None:
    """Its tables in the cloud: the larger ones in several slices."""
    for name in TPCH_TABLES:
        program("table", "create", f"{folder}/{name}", "--like", tpch / f"{name}.parquet")
        program("table", "load", f"{folder}/{name}", tpch / f"{name}.parquet", "--slice-size", "300kB")


def compare_tpch(ask: Callable[[str], pa.Table], tpch: Path) -> None:
    """Asks all queries of TPC-H, and DuckDB too."""
    judge = duckdb.connect()
    for name in TPCH_TABLES:
        judge.sql(f"CREATE VIEW {name} AS FROM '{tpch / name}.parquet'")
    for number, statement in QUERIES.items():
        expected = judge.sql(statement).fetchall()
        found = [tuple(row.values()) for row in rows(ask(statement))]
        assert len(found) == len(expected), number
        for one, other in zip(found, expected, strict=True):
            for mine, theirs in zip(one, other, strict=True):
                if isinstance(theirs, str) or theirs is None or not hasattr(theirs, "__float__"):
                    assert mine == theirs, (number, one, other)
                else:
                    # Averages and quotients of decimals are rounded at different places.
                    assert float(mine) == pytest.approx(float(theirs), rel=1e-6, abs=1e-4), (number, one, other)


def sky(count: int, seed: int) -> pa.Table:
    """Positions everywhere on the sky, dense at both poles and where right ascension begins anew."""
    random = np.random.default_rng(seed)
    ra = np.concatenate([random.uniform(0, 360, count * 3), random.uniform(-0.02, 0.02, count) % 360])
    dec = np.concatenate(
        [
            np.degrees(np.arcsin(random.uniform(-1, 1, count))),
            90 - random.exponential(0.01, count),
            random.exponential(0.01, count) - 90,
            random.uniform(-0.02, 0.02, count),
        ]
    )
    return pa.table({"id": np.arange(len(ra)), "ra": ra, "dec": dec})
