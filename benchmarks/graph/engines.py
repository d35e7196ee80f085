"""Three ways to hold the graph and to ask it: Quire, SQL by hand on Arrow data, and an embedded graph database."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from benchmarks.graph.data import SCHEMA
from benchmarks.graph.questions import Question, Row, Values

TYPES = ("Person", "City", "Knows", "LivesIn")


class Engine(Protocol):
    """Something that answers questions about a graph that it holds."""

    title: str

    def ask(self, question: Question, values: Values) -> list[Row]:
        """All rows of the answer."""

    def close(self) -> None: ...


class Quire:
    """A lake on local disk. Answers come from Lance scans, through indexes where there are some."""

    title = "Quire"

    def __init__(self, folder: Path) -> None:
        import quire
        from quire.graph.graph import Graph

        self._lake = quire.open(folder / "lake")
        self._graph = Graph(self._lake)
        self._at = self._lake.snapshot()

    @staticmethod
    def load(files: Path, folder: Path) -> None:
        """One commit over all types."""
        import quire
        from quire.graph.graph import Graph

        with quire.create(folder / "lake") as lake:
            graph = Graph(lake)
            graph.apply_schema(SCHEMA)
            graph.load([str(files / f"{name}.parquet") for name in TYPES])

    @staticmethod
    def tidy(folder: Path) -> None:
        """Extend the indexes to the rows that were loaded."""
        import quire

        with quire.open(folder / "lake") as lake:
            lake.optimize()

    def ask(self, question: Question, values: Values) -> list[Row]:
        found = self._graph.query(question.gq, at=self._at, params=values).to_arrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def close(self) -> None:
        self._lake.close()


class Sql:
    """DuckDB on the same Arrow data, all of it in memory; the SQL is written by hand."""

    title = "DuckDB, SQL by hand"

    def __init__(self, files: Path) -> None:
        import duckdb
        import pyarrow.parquet as pq

        self._connection = duckdb.connect()
        for name in TYPES:
            self._connection.register(name, pq.read_table(files / f"{name}.parquet"))

    def ask(self, question: Question, values: Values) -> list[Row]:
        return self._connection.execute(question.sql, values or None).fetchall()

    def close(self) -> None:
        self._connection.close()


class Ladybug:
    """A property graph database that runs in the process, with files of its own."""

    title = "Ladybug"

    def __init__(self, folder: Path) -> None:
        import real_ladybug

        self._database = real_ladybug.Database(str(folder / "ladybug.lbug"), read_only=True)
        self._connection = real_ladybug.Connection(self._database)

    @staticmethod
    def load(files: Path, folder: Path) -> None:
        import real_ladybug

        database = real_ladybug.Database(str(folder / "ladybug.lbug"))
        connection = real_ladybug.Connection(database)
        for statement in (
            "create node table Person(name string primary key, age int32, joined date)",
            "create node table City(name string primary key, size int64)",
            "create rel table Knows(from Person to Person, since date, weight double)",
            "create rel table LivesIn(from Person to City, since date)",
            *(f'copy {name} from "{files / name}.parquet"' for name in TYPES),
        ):
            connection.execute(statement)
        connection.close()
        database.close()

    def ask(self, question: Question, values: Values) -> list[Row]:
        result: Any = self._connection.execute(question.cypher, values)
        rows = [tuple(row) for row in result.get_all()]
        result.close()
        return rows

    def close(self) -> None:
        self._connection.close()
        self._database.close()
