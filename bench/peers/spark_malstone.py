"""MalStone in Spark: `spark_malstone.py a|b INPUT OUTPUT`. Statements in Spark's SQL over one data frame."""

import sys

from pyspark.sql import SparkSession

SCHEMA = "event string, time string, site bigint, flag tinyint, entity bigint"
LOG = "select unix_micros(cast(time as timestamp)) - {start} as time, site, flag, entity from text"
START = "unix_micros(timestamp '2009-01-01 00:00:00')"
# For each entity and site, whether the entity was flagged at or after the first visit, wherever that was.
TOTALS = """
    select site, count(case when last >= first then 1 end) as marked, count(*) as visitors
    from (select site, entity, min(time) as first from log group by site, entity) visit
    left join (select entity, max(time) as last from log where flag = 1 group by entity) flagged
        on flagged.entity = visit.entity
    group by site
"""
# For each record the first flag at or after it. That of the first visit is the least of a site's.
WEEKS = """
    with nexts as (
        select site, entity, time, min(case when flag = 1 then time end)
            over (partition by entity order by time range between current row and unbounded following) as flagged
        from log
    ), visits as (
        select site, min(time) as first, min(flagged) as flagged from nexts group by site, entity
    ), news as (
        select site, week, sum(visitor) as visitors, sum(mark) as marked from (
            select site, first div 604800000000 + 1 as week, 1 as visitor, 0 as mark from visits
            union all
            select site, flagged div 604800000000 + 1, 0, 1 from visits where flagged is not null
        ) group by site, week
    ), places as (
        select site, explode(sequence(min(week), 53)) as week from news group by site
    )
    select places.site, places.week,
        sum(coalesce(marked, 0)) over (partition by places.site order by places.week) as marked,
        sum(coalesce(visitors, 0)) over (partition by places.site order by places.week) as visitors
    from places left join news on news.site = places.site and news.week = places.week
"""
WRITE = """
    select {columns}, marked, visitors,
        cast((marked * 1000000 + visitors div 2) div visitors / 1000000 as decimal(9, 6)) as ratio
    from ({statement}) order by {columns}
"""


def main(variant: str, source: str, target: str) -> None:
    """Write the lines of the answer."""
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.read.csv(source, sep="|", schema=SCHEMA, quote="").createOrReplaceTempView("text")
    log = spark.sql(LOG.format(start=START)).cache()
    log.createOrReplaceTempView("log")
    statement, columns = (TOTALS, "site") if variant == "a" else (WEEKS, "site, week")
    spark.sql(WRITE.format(statement=statement, columns=columns)).write.csv(target)
    spark.stop()


main(*sys.argv[1:])
