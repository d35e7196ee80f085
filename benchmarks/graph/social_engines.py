"""Who is asked about the social network: Quire, DuckDB on Arrow and on Parquet, Ladybug, and Lance alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from benchmarks.graph.questions import Row, Values
from benchmarks.graph.social import SCHEMA, TYPES
from benchmarks.graph.social_questions import Social


class SocialEngine(Protocol):
    title: str

    def ask(self, question: Social, values: Values) -> list[Row] | None:
        """All rows of the answer; None where there is no way to ask."""

    def close(self) -> None: ...


class Quire:
    """A lake on local disk."""

    title = "Quire"

    def __init__(self, folder: Path) -> None:
        import quire

        self._lake = quire.open(folder / "lake")
        self._graph = quire.Graph(self._lake)
        self._at = self._lake.snapshot()

    @staticmethod
    def load(files: Path, folder: Path) -> None:
        import quire

        with quire.create(folder / "lake") as lake:
            graph = quire.Graph(lake)
            graph.apply_schema(SCHEMA)
            graph.load([str(files / f"{name}.parquet") for name in TYPES])
            lake.optimize()

    def ask(self, question: Social, values: Values, *, exact: bool = False) -> list[Row] | None:
        if question.gq == "path":
            found = self._graph.paths("Knows", values["name"], values["other"], hops=12, at=self._at)
            return [(int(found[0].length),)] if found else []
        rows = self._graph.query(question.gq, at=self._at, params=values, exact=exact).to_arrow()
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def close(self) -> None:
        self._lake.close()


class Sql:
    """DuckDB; the SQL is written by hand."""

    def __init__(self, files: Path, kind: str) -> None:
        import duckdb
        import pyarrow.parquet as pq

        self.title = f"DuckDB, {kind}"
        self._connection = duckdb.connect()
        for name in TYPES:
            file = files / f"{name}.parquet"
            if kind == "Arrow":
                self._connection.register(name, pq.read_table(file))
            else:
                self._connection.execute(f"create view {name} as select * from '{file}'")

    def ask(self, question: Social, values: Values) -> list[Row] | None:
        return self._connection.execute(question.sql, values or None).fetchall() if question.sql else None

    def close(self) -> None:
        self._connection.close()


class Ladybug:
    """An embedded graph database. It gets no vectors and texts: its search is of another kind."""

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
        posts = f'(load from "{files}/Post.parquet" return slug, length, day)'
        for statement in (
            "create node table Person(name string primary key, age int32, joined date)",
            "create node table Tag(name string primary key)",
            "create node table Post(slug string primary key, length int32, day date)",
            "create rel table Knows(from Person to Person, since date)",
            "create rel table Wrote(from Person to Post)",
            "create rel table Likes(from Person to Post, day date)",
            "create rel table HasTag(from Post to Tag)",
            *(f"copy {name} from {posts if name == 'Post' else _quoted(files, name)}" for name in TYPES),
        ):
            connection.execute(statement)
        connection.close()
        database.close()

    def ask(self, question: Social, values: Values) -> list[Row] | None:
        if not question.cypher:
            return None
        result: Any = self._connection.execute(question.cypher, values)
        rows = [tuple(row) for row in result.get_all()]
        result.close()
        return rows

    def close(self) -> None:
        self._connection.close()
        self._database.close()


def _quoted(files: Path, name: str) -> str:
    return f'"{files}/{name}.parquet"'


class Lance:
    """The tables of the same lake through pylance: a look-up, the edges of a node, and searches without a hop."""

    title = "Lance alone"

    def __init__(self, folder: Path) -> None:
        import quire
        from quire.lake.handles import view_of

        self._lake = quire.open(folder / "lake")
        at = self._lake.snapshot()
        names = ("node:Person", "node:Post", "edge:Knows")
        handles: list[Any] = [view_of(at[name]) for name in names]
        self._people, self._posts, self._knows = (view.handle for view in handles)

    def ask(self, question: Social, values: Values) -> list[Row] | None:
        if question.lance == "key":
            found = self._people.to_table(columns=["name", "age", "joined"], filter=f"name = '{values['name']}'")
            return list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        if question.lance == "hop":
            edges = self._knows.to_table(columns=["dst"], filter=f"src = '{values['name']}'").column("dst").to_pylist()
            wanted = ", ".join(f"'{one}'" for one in edges) or "''"
            found = self._people.to_table(columns=["name", "age"], filter=f"id in ({wanted})")
            return list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        found = []
        if question.lance in ("vector", "both"):
            query = {"column": "vector", "q": np.asarray(values["v"], np.float32), "k": 10, "nprobes": 64}
            found.append(self._posts.to_table(columns=["slug"], nearest={**query, "metric": "cosine"}))
        if question.lance in ("text", "both"):
            text = {"query": values["q"], "columns": ["text"]}
            found.append(self._posts.to_table(columns=["slug"], full_text_query=text, limit=10))
        return [(slug,) for part in found for slug in part.column("slug").to_pylist()] if found else None

    def close(self) -> None:
        self._lake.close()
