"""MalStone in Dask: `dask_malstone.py a|b INPUT OUTPUT TEMPORARY`. A process a core, with pandas within each.

Visits are shuffled by entity; each part then counts by itself, and the counts are added up.
"""

import os
import sys

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

WEEK_US = 7 * 86_400_000_000
WEEKS = 53
BLOCK_BYTES = 64_000_000


def counts(log: pd.DataFrame, by_week: bool) -> pd.DataFrame:
    """New visitors, and newly marked ones, of each site and week, by all visits of some entities."""
    time = (pd.to_datetime(log["time"]) - pd.Timestamp("2009-01-01")) // pd.Timedelta(microseconds=1)
    log = log.assign(time=time.astype("int64"))
    visits = log.groupby(["site", "entity"], as_index=False, sort=False)["time"].min().sort_values("time")
    flags = log.loc[log["flag"] == 1, ["entity", "time"]].sort_values("time")
    flags["flagged"] = flags["time"]
    visits = pd.merge_asof(visits, flags, on="time", by="entity", direction="forward")
    marked = visits[visits["flagged"].notna()]
    week = lambda times: times.astype("int64") // WEEK_US + 1 if by_week else 0  # noqa: E731
    news = pd.concat(
        [
            pd.DataFrame({"site": visits["site"], "week": week(visits["time"]), "marked": 0, "visitors": 1}),
            pd.DataFrame({"site": marked["site"], "week": week(marked["flagged"]), "marked": 1, "visitors": 0}),
        ]
    )
    return news.groupby(["site", "week"], as_index=False)[["marked", "visitors"]].sum()


def by_weeks(news: pd.DataFrame) -> pd.DataFrame:
    """A line for each week from the site's first one on, with sums of all weeks before."""
    first = news.groupby("site")["week"].min()
    lengths = WEEKS + 1 - first.to_numpy()
    sites = np.repeat(first.index.to_numpy(), lengths)
    week = np.concatenate([np.arange(week, WEEKS + 1) for week in first])
    lines = pd.DataFrame({"site": sites, "week": week}).merge(news, on=["site", "week"], how="left").fillna(0)
    lines[["marked", "visitors"]] = lines.groupby("site")[["marked", "visitors"]].cumsum().astype("int64")
    return lines


def main(variant: str, source: str, target: str, temporary: str) -> None:
    """Write the lines of the answer."""
    dask.config.set({"temporary-directory": temporary, "dataframe.convert-string": False})
    cluster = LocalCluster(n_workers=os.cpu_count(), threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        names = ["event", "time", "site", "flag", "entity"]
        log = dd.read_csv(
            source,
            sep="|",
            header=None,
            names=names,
            usecols=names[1:],
            blocksize=BLOCK_BYTES,
            dtype={"time": "string[pyarrow]", "site": "int64", "flag": "int8", "entity": "int64"},
        )
        meta = pd.DataFrame({name: pd.Series(dtype="int64") for name in ["site", "week", "marked", "visitors"]})
        parts = log.shuffle("entity").map_partitions(counts, variant == "b", meta=meta).compute()
    news = parts.groupby(["site", "week"], as_index=False)[["marked", "visitors"]].sum()
    lines = by_weeks(news) if variant == "b" else news.drop(columns="week")
    lines["ratio"] = (lines["marked"] * 1_000_000 + lines["visitors"] // 2) // lines["visitors"] / 1e6
    lines.to_csv(target, header=False, index=False, float_format="%.6f")


if __name__ == "__main__":
    main(*sys.argv[1:])
