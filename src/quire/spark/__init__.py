"""Quire on Spark: frames into many tables in one commit, tables as frames, streams exactly once.

    import quire, quire.spark

    spark = quire.spark.session("local[4]")
    lake = quire.open("s3://bucket/lake")
    with quire.spark.transaction(spark, lake, "nightly") as tx:
        tx["documents"].append(documents)
        tx["chunks"].upsert(chunks, on="id")
    quire.spark.table(spark, lake, "documents", columns=["id"], filter="year > 2020")

Executors write and read the data files; only their descriptions come to the driver, which commits.
"""

from quire.spark.querying import query
from quire.spark.reading import table, views
from quire.spark.start import ensure_java, register, send, session
from quire.spark.stream import sink
from quire.spark.writing import SparkTable, SparkTransaction, transaction

__all__ = [
    "SparkTable",
    "SparkTransaction",
    "ensure_java",
    "query",
    "register",
    "send",
    "session",
    "sink",
    "table",
    "transaction",
    "views",
]
