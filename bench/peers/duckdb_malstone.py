"""MalStone in DuckDB: `duckdb_malstone.py a|b INPUT OUTPUT TEMPORARY`. One chain of statements in SQL."""

import sys

import duckdb

LOG = """
    create temp table log as select time, site, flag, entity from read_csv(?, delim = '|', header = false, quote = '',
        columns = {'event': 'varchar', 'time': 'timestamp', 'site': 'bigint', 'flag': 'tinyint', 'entity': 'bigint'})
"""
# For each entity and site the first visit, and whether the entity was flagged at or after it, wherever that was.
TOTALS = """
    select site, count(*) filter (last >= first) as marked, count(*) as visitors
    from (select site, entity, min(time) as first from log group by site, entity)
    left join (select entity, max(time) as last from log where flag = 1 group by entity) using (entity)
    group by site
"""
# The same by week: when it was flagged for the first time after the first visit. The sums run over the weeks.
WEEKS = """
    with visits as (
        select visit.site, visit.first, flagged.time as flagged
        from (select site, entity, min(time) as first from log group by site, entity) visit
        asof left join (select entity, time from log where flag = 1) flagged
            on flagged.entity = visit.entity and visit.first <= flagged.time
    ), news as (
        select site, week, sum(visitor)::bigint as visitors, sum(mark)::bigint as marked from (
            select site, week_of(first) as week, 1 as visitor, 0 as mark from visits
            union all select site, week_of(flagged), 0, 1 from visits where flagged is not null
        ) group by site, week
    ), places as (
        select site, unnest(range(min(week), 54)) as week from news group by site
    )
    select site, week,
        (sum(coalesce(marked, 0)) over (partition by site order by week))::bigint as marked,
        (sum(coalesce(visitors, 0)) over (partition by site order by week))::bigint as visitors
    from places left join news using (site, week)
"""
# An exact week: whole microseconds, divided as whole numbers.
WEEK_OF = """
    create temp macro week_of(time) as
        (epoch_us(time) - epoch_us(timestamp '2009-01-01')) // (7 * 86400000000::bigint) + 1
"""
# The ratio is rounded as a whole number of millionths.
WRITE = """
    copy (
        select {columns}, marked, visitors,
            (((marked * 1000000 + visitors // 2) // visitors) / 1000000)::decimal(9, 6) as ratio
        from ({statement}) order by {columns}
    ) to '{target}' (header false)
"""


def main(variant: str, source: str, target: str, temporary: str) -> None:
    """Write the lines of the answer."""
    database = duckdb.connect(config={"temp_directory": temporary})
    database.execute(LOG, [source])
    database.execute(WEEK_OF)
    statement, columns = (TOTALS, "site") if variant == "a" else (WEEKS, "site, week")
    database.execute(WRITE.format(statement=statement, columns=columns, target=target))


main(*sys.argv[1:])
