"""The models of a dbt project as tables of a lake, all in one commit.

    pip install 'quire[spark]' 'dbt-spark>=1.8'
    python examples/dbt/run.py LAKE

dbt reads the lake through views of one commit, and its models are views of the same Spark session. When all of them and
their tests have passed, one transaction writes every model as a table: readers see the results of one run or of the
one before, and never some of each. A run that fails changes nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import quire
import quire.spark

HERE = Path(__file__).resolve().parent


def build(lake: quire.Lake, spark: Any, name: str = "lake") -> list[str]:
    """Let dbt build and test its models over views `lake_…` of the newest commit; which models there are."""
    from dbt.cli.main import dbtRunner

    quire.spark.attach(spark, lake, name)
    where = ["--project-dir", str(HERE), "--profiles-dir", str(HERE), "--vars", f"{{lake: {name}}}"]
    with tempfile.TemporaryDirectory(prefix="dbt-") as made:
        done = dbtRunner().invoke(["build", *where, "--target-path", made, "--log-path", made, "--no-use-colors"])
    if not done.success:
        raise SystemExit("dbt has failed, and nothing was written.")
    return [one.node.name for one in done.result if one.node.resource_type == "model"]


def publish(lake: quire.Lake, spark: Any, models: list[str]) -> str | None:
    """Write the views of these names as tables, in one commit; which one."""
    with quire.spark.transaction(spark, lake, "dbt build") as tx:
        for model in models:
            rows = spark.table(model)
            if model in tx:
                tx[model].overwrite(rows, schema="replace")
            else:
                tx.create_table(model, rows)
    return tx.receipt.commit


if __name__ == "__main__":
    opened = quire.open(sys.argv[1])
    session = quire.spark.session("local[2]")
    print("commit", publish(opened, session, build(opened, session)))
