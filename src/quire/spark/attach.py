"""The tables of a lake in Spark SQL: views of one commit, and statements that change the lake.

Spark looks tables up in catalogs that run in its JVM, and has no place for one in Python. So `attach` makes temporary
views, for every tool that sends queries to the session; and `sql` reads statements here and runs those that change a
table on the verbs of a lake, each as one commit.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import quire
from quire.arguments import checked, checks_arguments
from quire.errors import InvalidInput
from quire.lake import Lake, Snapshot
from quire.prompt import Escaped, PublicNames
from quire.spark import sql_text
from quire.spark.connect_expressions import names_in_query
from quire.spark.dml import SqlResult, run
from quire.spark.read import frame, readable_columns, snapshot_of, views
from quire.spark.sql_text import SqlStatement
from quire.spark.write import SparkTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quire.lake.commit.tokens import Token

_lock = threading.RLock()


@checked
def attach(spark: SparkSession, lake: Lake | str, name: str, *, at: str | datetime | None = None) -> Attached:
    """Make every table of a lake a temporary view `name_table`, all of one commit: the newest, or `at` another one.

    >>> import quire.spark
    >>> spark, lake = quire.spark.session("local[2]"), quire.create("attached-lake")
    >>> made = lake.create_table("people", [{"id": 1}], key="id")
    >>> demo = quire.spark.attach(spark, lake, "demo")
    >>> spark.sql("select count(*) as n from demo_people").collect()
    [Row(n=1)]
    """
    if not name:
        raise InvalidInput("A lake is attached by a name.", next='For example quire.spark.attach(spark, lake, "demo").')
    opened = _opened(lake)
    return Attached(spark, opened, name, at)


def _opened(lake: Lake | str) -> Lake:
    return lake if isinstance(lake, Lake) else quire.open(lake)


@checks_arguments
class Attached(Escaped, PublicNames):
    """Views of one commit of a lake. They stay as they are until `refresh` or `travel`."""

    def __init__(self, spark: SparkSession, lake: Lake, name: str, at: str | datetime | None) -> None:
        self.spark, self.lake, self.name = spark, lake, name
        self.views: list[str] = []
        """The names of the views."""
        self._show(snapshot_of(lake, at))

    @property
    def commit(self) -> str:
        """The commit that the views show."""
        return self._snapshot.commit

    def refresh(self) -> str:
        """Show the newest commit; which one it is."""
        self.lake.refresh()
        return self._show(self.lake.snapshot())

    def travel(self, at: str | datetime) -> str:
        """Show another commit: `12.0`, a tag or a time; which one it is."""
        return self._show(snapshot_of(self.lake, at))

    def sql(self, statement: str) -> DataFrame | SqlResult:
        """A query over the views, as `spark.sql`; or a statement that changes the lake, and then the views show it."""
        if sql_text.parsed(statement).kind == "query":
            return self.spark.sql(statement)
        done = sql(self.spark, self.lake, statement)
        self.refresh()
        return done

    def detach(self) -> None:
        """Drop the views."""
        for view in self.views:
            _drop(self.spark, view)
        self.views = []

    def _show(self, snapshot: Snapshot) -> str:
        made = views(self.spark, snapshot, prefix=f"{self.name}_")
        for view in self.views:
            if view not in made:
                _drop(self.spark, view)
        self.views, self._snapshot = made, snapshot
        return snapshot.commit

    def __repr__(self) -> str:
        return f"<{self.lake.uri} at {self.commit} as {len(self.views)} views {self.name}_…>"


@checked
def sql(
    spark: SparkSession,
    lake: Lake | str,
    statement: str,
    *,
    message: str | None = None,
    author: str | None = None,
    token: Token | None = None,
    retries: int = 10,
) -> DataFrame | SqlResult:
    """Run a statement in Spark's SQL whose tables are those of the lake, by their own names.

    A query is a frame of the newest commit. `INSERT`, `UPDATE`, `DELETE`, `MERGE INTO`, and `CREATE`, `ALTER`, `DROP`
    and `TRUNCATE TABLE` are one commit each, and give counts and a receipt. They may read temporary views of the
    session too. A statement that lost against a rival runs again on the newer state, up to `retries` times.

    >>> import quire, quire.spark
    >>> spark, lake = quire.spark.session("local[2]"), quire.create("sql-lake")
    >>> made = quire.spark.sql(spark, lake, "create table t (id bigint primary key, name string)")
    >>> quire.spark.sql(spark, lake, "insert into t values (1, 'a'), (2, 'b')").inserted
    2
    """
    opened = _opened(lake)
    asked = sql_text.parsed(statement)
    if asked.kind == "query":
        opened.refresh()
        held = opened.snapshot()
        with _named(spark, held, _meant(statement, held), asked.query):
            return _looked_at(spark, asked.query)
    ran: list[Any] = []

    def work(tx: Any) -> SqlResult:
        ran[:] = [tx]
        with _named(spark, tx, _meant(statement, tx, asked)):
            return run(SparkTransaction(spark, tx), asked)

    said = message if message is not None else " ".join(statement.split())[:200]
    # What is computed from rows of the lake means nothing once they have changed.
    reads = asked.kind != "insert" or bool(_meant(statement, opened.snapshot(), asked))
    how: dict[str, Any] = {"author": author, "token": token, "isolation": "serializable" if reads else "snapshot"}
    how["fresh"] = True
    done = opened.transact(work, said, retries=retries, **how)
    result = SqlResult(repeated=True) if done is None else done
    if done is not None and ran[0].status == "committed":
        result.receipt = ran[0].receipt
    return result


def _meant(statement: str, held: Any, asked: SqlStatement | None = None) -> list[str]:
    """The tables that a statement may read: those whose names are in it."""
    said = sql_text.names(statement)
    if asked is not None and asked.kind in ("insert", "create") and asked.condition is None:
        said.remove(asked.table.lower())  # it is written there
    return [name for name in held.tables() if name.lower() in said]


@contextmanager
def _named(spark: SparkSession, held: Any, tables: list[str], query: str | None = None) -> Iterator[None]:
    """Views of tables under their own names, while a statement is looked at.

    Over Spark Connect those of a query have the columns that it mentions, as no optimizer narrows them there.
    """
    made: list[str] = []
    mentioned = None if query is None or hasattr(spark, "_jsparkSession") else names_in_query(query)
    with _lock:
        try:
            for name in tables:
                if spark.catalog.tableExists(_quoted(name)):
                    raise InvalidInput(
                        f"Table {name!r} of the lake has the name of a view or table of the session.",
                        next="Give the view another name.",
                        table=name,
                    )
                columns = readable_columns(held[name])
                if mentioned is not None:
                    columns = [column for column in columns if column.lower() in mentioned] or columns[:1]
                frame(spark, held[name], columns).createOrReplaceTempView(_quoted(name))
                made.append(name)
            yield
        finally:
            for name in made:
                _drop(spark, name)


def _looked_at(spark: SparkSession, query: str) -> DataFrame:
    """The frame of a query whose views go. Over Spark Connect the server looks at it only when it is made a view."""
    made = spark.sql(query)
    if not hasattr(spark, "_jsparkSession"):
        name = f"quire_query_{uuid.uuid4().hex}"
        made.createOrReplaceTempView(name)
        made = spark.table(name)
    return made


def _drop(spark: SparkSession, view: str) -> None:
    spark.catalog.dropTempView(view)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
