"""Quire on Spark: frames into many tables in one commit, tables as frames, streams exactly once.

>>> import quire, quire.spark
>>> spark = quire.spark.session("local[2]")
>>> lake = quire.create("nightly-lake")
>>> made = lake.create_table("documents", [{"id": 1, "year": 2019}], key="id")
>>> documents = spark.createDataFrame([(2, 2024)], "id long, year long")
>>> with quire.spark.transaction(spark, lake, "nightly") as tx:
...     counts = tx["documents"].upsert(documents)
>>> quire.spark.table(spark, lake, "documents", columns=["id"], filter="year > 2020").collect()
[Row(id=2)]

Executors write and read the data files; only their descriptions come to the driver, which commits.
"""

from quire.spark.attach import Attached, attach, sql
from quire.spark.dml import SqlResult
from quire.spark.graph_query.run import query
from quire.spark.read import table, views
from quire.spark.session_builder import ensure_java, register, send, session
from quire.spark.stream import sink
from quire.spark.write import SparkTable, SparkTransaction, transaction

__all__ = [
    "Attached",
    "SparkTable",
    "SparkTransaction",
    "SqlResult",
    "attach",
    "ensure_java",
    "query",
    "register",
    "send",
    "session",
    "sink",
    "sql",
    "table",
    "transaction",
    "views",
]
