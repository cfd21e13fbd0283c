"""MalStone in Polars: `polars_malstone.py a|b INPUT OUTPUT`. Lazy data frames, by the streaming engine."""

import sys

import polars as pl

SCHEMA = {"event": pl.String, "time": pl.String, "site": pl.Int64, "flag": pl.Int8, "entity": pl.Int64}
WEEK_US = 7 * 86_400_000_000
WEEKS = 53


def read(source: str) -> pl.DataFrame:
    """The log, with times in microseconds since 2009 began."""
    log = pl.scan_csv(source, separator="|", has_header=False, schema=SCHEMA, quote_char=None)
    time = pl.col("time").str.to_datetime("%Y-%m-%d %H:%M:%S%.6f", time_unit="us") - pl.datetime(2009, 1, 1)
    return log.select(time.dt.total_microseconds().alias("time"), "site", "flag", "entity").collect(engine="streaming")


def totals(log: pl.DataFrame) -> pl.LazyFrame:
    """For each site, visitors and those flagged at or after their first visit."""
    first = log.lazy().group_by("site", "entity").agg(pl.col("time").min().alias("first"))
    last = log.lazy().filter(pl.col("flag") == 1).group_by("entity").agg(pl.col("time").max().alias("last"))
    marked = (pl.col("last") >= pl.col("first")).fill_null(False).sum().cast(pl.Int64)
    sites = first.join(last, on="entity", how="left").group_by("site")
    return sites.agg(marked.alias("marked"), pl.len().cast(pl.Int64).alias("visitors")).sort("site")


def weeks(log: pl.DataFrame) -> pl.LazyFrame:
    """The same for each site and week, from the site's first week on."""
    first = log.lazy().group_by("site", "entity").agg(pl.col("time").min()).sort("time")
    flags = log.lazy().filter(pl.col("flag") == 1).select("entity", "time", flagged="time").sort("time")
    visits = first.join_asof(flags, on="time", by="entity", strategy="forward", check_sortedness=False).collect()
    one, none = pl.lit(1, pl.Int64), pl.lit(0, pl.Int64)
    came = visits.lazy().select("site", week=pl.col("time") // WEEK_US + 1, marked=none, visitors=one)
    left = visits.lazy().filter(pl.col("flagged").is_not_null())
    left = left.select("site", week=pl.col("flagged") // WEEK_US + 1, marked=one, visitors=none)
    news = pl.concat([came, left]).group_by("site", "week").agg(pl.col("marked", "visitors").sum())
    places = news.group_by("site").agg(week=pl.int_ranges(pl.col("week").min(), WEEKS + 1).first()).explode("week")
    lines = places.join(news, on=["site", "week"], how="left").sort("site", "week")
    return lines.with_columns(pl.col("marked", "visitors").fill_null(0).cum_sum().over("site"))


def main(variant: str, source: str, target: str) -> None:
    """Write the lines of the answer."""
    log = read(source)
    lines = totals(log) if variant == "a" else weeks(log)
    ratio = (pl.col("marked") * 1_000_000 + pl.col("visitors") // 2) // pl.col("visitors") / 1e6
    lines.with_columns(ratio=ratio).collect().write_csv(target, include_header=False, float_precision=6)


main(*sys.argv[1:])
