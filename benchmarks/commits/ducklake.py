"""DuckLake: tables as Parquet files in a folder, and a catalogue in an SQL database, here PostgreSQL or SQLite.

Its extension comes from PyPI and belongs to DuckDB 1.5, so it has folders of its own (`ducklake.txt`) and runs in
processes of its own.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.commits.fork_server import Environment
from benchmarks.commits.places import Place

FOLDER = Path(sys.prefix) / "ducklake"
ENVIRONMENT = Environment("ducklake", ("duckdb", "benchmarks.commits.ducklake"), (str(FOLDER),))
EXTENSIONS = ("httpfs", "ducklake", "postgres_scanner", "sqlite_scanner")
GIVE_UP_AFTER = 100
"""How often a transaction is begun anew after DuckLake has given up on it, which it does after ten lost races."""


def problem() -> str:
    """Why it cannot be measured here, or nothing."""
    missing = [name for name in EXTENSIONS if not list(FOLDER.glob(f"duckdb_extension_{name}/extensions/*/*"))]
    if not missing:
        return ""
    return f"{', '.join(missing)} not found in {FOLDER}; `make bench` installs benchmarks/commits/ducklake.txt there"


class DuckLake:
    """One transaction over all tables. Threads share one DuckDB, each with a connection of its own."""

    atomic = True
    environment = ENVIRONMENT

    def __init__(self, catalogue: str) -> None:
        self.catalogue = catalogue
        self.key = "ducklake" if catalogue == "postgres" else f"ducklake-{catalogue}"
        self.title = f"DuckLake, {'PostgreSQL' if catalogue == 'postgres' else 'SQLite'}"

    def refuses(self, place: Place, *, shared: bool) -> str:
        if self.catalogue == "postgres" and not place.postgres:
            return "no PostgreSQL server was found"
        return problem()

    def create(self, place: Place, tables: Sequence[str]) -> None:
        client = DuckLakeClient(place, self.catalogue)
        # It has no vectors of a fixed length.
        for table in tables:
            client.connection.execute(f"CREATE TABLE {table} AS SELECT id, text, vector::FLOAT[] AS vector FROM batch")
        client.close()

    def open(self, place: Place) -> DuckLakeClient:
        return DuckLakeClient(place, self.catalogue)


class DuckLakeClient:
    def __init__(self, place: Place, catalogue: str) -> None:
        import duckdb
        from benchmarks.commits.systems import batch

        name = "q" + hashlib.sha256(place.root.encode()).hexdigest()[:16]
        if catalogue == "postgres":
            where = f"postgres:dbname=postgres host={place.postgres} user=postgres"
            also = f", METADATA_SCHEMA '{name}'"
        else:
            where, also = f"sqlite:{place.scratch}/{name}.sqlite", ""
        self.connection: Any = duckdb.connect(config={"threads": 1})
        needed = ["ducklake", f"{catalogue}_scanner", *([] if place.on_disk else ["httpfs"])]
        for one in needed:
            [file] = FOLDER.glob(f"duckdb_extension_{one}/extensions/*/{one}.duckdb_extension")
            self.connection.load_extension(str(file))
        if not place.on_disk:
            self.connection.execute(_secret(place.options))
        self.connection.execute(f"ATTACH 'ducklake:{where}' AS lake (DATA_PATH '{place.at('ducklake')}/'{also})")
        self.connection.execute("USE lake")
        self.connection.register("batch", batch())
        self._lock = threading.Lock()

    def writer(self, tables: Sequence[str]) -> Any:
        import duckdb
        from benchmarks.commits.systems import batch

        with self._lock:
            own = self.connection.cursor()
            own.execute("USE lake")
            own.register("batch", batch())

        def write() -> None:
            for _ in range(GIVE_UP_AFTER):
                try:
                    own.execute("BEGIN")
                    for table in tables:
                        own.execute(f"INSERT INTO {table} SELECT * FROM batch")
                    own.execute("COMMIT")
                    return
                except duckdb.TransactionException:
                    _undo(own)
            raise TimeoutError(f"DuckLake gave up {GIVE_UP_AFTER} times")

        return write

    def rows(self, table: str) -> int:
        return int(self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def settle(self) -> None:
        pass

    def close(self) -> None:
        self.connection.close()


def _undo(connection: Any) -> None:
    import duckdb

    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:
        pass  # the failed commit has ended the transaction


def _secret(options: dict[str, str]) -> str:
    key, secret = options["aws_access_key_id"], options["aws_secret_access_key"]
    endpoint = options["aws_endpoint"].removeprefix("http://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{options['aws_region']}', "
        f"ENDPOINT '{endpoint}', USE_SSL false, URL_STYLE 'path')"
    )
