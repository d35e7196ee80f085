"""Every verb of lance-spark on a plain Spark, through a namespace at an address. Knows nothing of Quire."""

import sys
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

uri, view, jars = sys.argv[1:4]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.extraClassPath", ":".join(str(jar) for jar in sorted(Path(jars).glob("*.jar"))))
    .config("spark.sql.extensions", "org.lance.spark.extensions.LanceSparkSessionExtensions")
    .config("spark.sql.catalog.shop", "org.lance.spark.LanceNamespaceSparkCatalog")
    .config("spark.sql.catalog.shop.impl", "rest")
    .config("spark.sql.catalog.shop.uri", uri)
    .config("spark.driver.memory", "1g")
    .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")


def told(kind, error, trace):
    """What went wrong, without the hundred lines of Java."""
    print("".join(traceback.format_tb(trace)), kind.__name__, str(error)[:2000], file=sys.stderr)


sys.excepthook = told


def rows(statement):
    return [tuple(row) for row in spark.sql(statement).collect()]


def refused(statement):
    try:
        rows(statement)
    except Exception as error:
        return str(error)
    raise AssertionError(f"it was not refused: {statement}")


if view == "branch":  # it keeps numbers of versions in 32 bits
    assert sorted(row[1] for row in rows("show tables in shop")) == ["docs", "people"]
    said = refused("select * from shop.docs")
    assert "ot found" in said, said
    said = refused("delete from shop.docs where id = 1")
    assert "ot found" in said, said
    spark.stop()
    print("done")
    sys.exit()

assert sorted(rows("show tables in shop")) == [("", "docs", False), ("", "people", False)]
assert rows("describe table shop.docs")[0][:2] == ("id", "bigint")
assert rows("select text from shop.docs where id = 2") == [("text 2",)]
rows("insert into shop.docs values (10, 'new 10'), (11, 'new 11')")
rows(
    "merge into shop.docs t using (select 3L as id, 'merged 3' as text union all select 9L, 'merged 9') s "
    "on t.id = s.id when matched then update set * when not matched then insert *"
)
rows("update shop.docs set text = 'changed' where id = 0")
rows("delete from shop.docs where id = 1")
rows("alter table shop.docs create index by_id using btree (id)")
assert [row[0] for row in rows("show indexes from shop.docs")] == ["by_id"]
assert [row[0] for row in rows("select id from shop.docs order by id")] == [0, 2, 3, 9, 10, 11]

rows("create table shop.made as select 1L as id, 'new 1' as text")
spark.createDataFrame([(2, "new 2")], "id bigint, text string").writeTo("shop.made").append()
rows("create table shop.written as select id, text from shop.docs")
rows("insert overwrite shop.written values (5, 'new 5')")
rows("create table shop.gone as select 1L as id")
rows("drop table shop.gone")

assert [row[0] for row in rows("select id from shop.docs version as of 1 order by id")] == [0, 1, 2, 3]
rows("create namespace shop.search")
rows("create table shop.search.notes (id bigint, text string)")
assert rows("select * from shop.search.notes") == []
rows("insert into shop.search.notes values (1, 'a')")
rows("replace table shop.search.notes as select 2L as id, 'b' as text")
assert sorted(rows("show tables in shop.search")) == [("search", "notes", False)]
assert rows("show namespaces in shop") == [("search",)]
assert "not supported" in refused("alter table shop.docs add columns (twice bigint)")
assert "not supported" in refused("alter table shop.docs rename to shop.other")
rows("optimize shop.made")  # commits past the namespace
assert "quire adopt" in refused("insert into shop.made values (3, 'new 3')")
spark.stop()
print("done")
