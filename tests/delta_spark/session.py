"""A session of Spark with Delta and a catalog `lake`: runs what it is told, line by line. It knows nothing of Quire.

The classpath, the address of the catalog and settings (NAME=VALUE) come as arguments, a step as a line of JSON:
{"sql": …}, or a stream of the rows that were added to one table into another one, {"stream": from, "into": to,
"checkpoint": folder}.
"""

import json
import sys

from pyspark.sql import SparkSession

LAKE = "spark.sql.catalog.lake"


def session(classpath, uri, *more):
    settings = {
        "spark.driver.extraClassPath": classpath,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        LAKE: "io.unitycatalog.spark.UCSingleCatalog",
        f"{LAKE}.uri": uri,
        f"{LAKE}.token": "a token",
        f"{LAKE}.credentialVending.enabled": "false",
    }
    settings |= dict(one.split("=", 1) for one in more)
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def done(spark, step):
    if "stream" in step:
        rows = spark.readStream.table(step["stream"])
        writer = (
            rows.writeStream.format("delta").option("checkpointLocation", step["checkpoint"]).trigger(availableNow=True)
        )
        writer.toTable(step["into"]).awaitTermination()
        return []
    return [list(row) for row in spark.sql(step["sql"]).collect()]


def main():
    spark = session(*sys.argv[1:])
    print("ANSWER " + json.dumps({"rows": []}), flush=True)
    for line in sys.stdin:
        try:
            answer = {"rows": done(spark, json.loads(line))}
        except Exception as error:
            answer = {"error": str(error)[:4000]}
        print("ANSWER " + json.dumps(answer, default=str), flush=True)


main()
