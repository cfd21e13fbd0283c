"""TPC-H beside DuckDB and DataFusion alone, on the same Parquet files: `tpch.py FOLDER [ROUNDS]`.

`FOLDER` has what `tpchgen-cli parquet -s 1 --output-dir=FOLDER` makes. They are put into the cloud of the profile in use,
into `/tpch-bench`. Each system takes its turn at each question, with two threads. Ours is the whole program, with its start
and its login; the others run in this process. It prints medians in milliseconds, and the ratios of ours to the others'.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import datafusion
import duckdb

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/python"))
from tpch_queries import QUERIES

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def systems(folder: Path, output: Path) -> dict[str, Callable[[str], object]]:
    """What each one does with a question."""
    duck = duckdb.connect()
    duck.sql("SET threads = 2")
    fusion = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))
    for name in TABLES:
        file = folder / f"{name}.parquet"
        subprocess.run(["sector", "put", "--quiet", file, f"/tpch-bench/{name}/{name}.parquet"], check=True)
        duck.sql(f"CREATE VIEW {name} AS FROM '{file}'")
        fusion.register_parquet(name, str(file))
    words = ["--folder", "/tpch-bench", "--threads", "2", "--to", str(output / "answer.arrow")]
    return {
        "sector": lambda statement: subprocess.run(["sector", "sql", statement, *words], check=True),
        "datafusion": lambda statement: fusion.sql(statement).collect(),
        "duckdb": lambda statement: duck.sql(statement).fetchall(),
    }


def main() -> None:
    """Asks everything, and prints what it took."""
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    total: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as output:
        asked = systems(folder, Path(output))
        for number, statement in QUERIES.items():
            took: dict[str, list[float]] = {name: [] for name in asked}
            for _ in range(rounds):
                for name, ask in asked.items():
                    begun = time.perf_counter()
                    ask(statement)
                    took[name].append((time.perf_counter() - begun) * 1000)
            middle = {name: statistics.median(times) for name, times in took.items()}
            total = {name: total.get(name, 0) + ms for name, ms in middle.items()}
            print(number, {name: round(ms) for name, ms in middle.items()}, flush=True)
    for name, ms in total.items():
        print(f"{name}: {ms:.0f} ms, ours is {total['sector'] / ms:.2f} of it")


if __name__ == "__main__":
    main()
