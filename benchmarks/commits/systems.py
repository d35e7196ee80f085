"""How each system appends one batch to some tables, the way its documentation shows, with handles that stay open.

A `System` makes its tables below a place and opens a `Client` there, one per process. A client gives each writer one
function that makes one commit. Conflicts are left to the system's own means; what it gives up on is raised.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Protocol

import pyarrow as pa
from benchmarks.commits.ducklake import DuckLake
from benchmarks.commits.fork_server import Environment
from benchmarks.commits.places import Place

ROWS = 100
WIDTH = 8
GIVE_UP_AFTER = 1_000
"""How often a system that counts its retries may lose one race before it gives up."""

Write = Callable[[], None]

QUIRE = Environment("quire", ("lance", "obstore", "quire", "quire.testing.forkserver_preload"))
OLDER = Environment("older")
"""Only a name: `older` makes it, when a revision was asked for."""
LANCE = Environment("lance", ("lance", "lance.namespace"))
DELTA = Environment("delta", ("deltalake",))
ICECHUNK = Environment("icechunk", ("icechunk", "zarr"))


class Client(Protocol):
    def writer(self, tables: Sequence[str]) -> Write:
        """A function that appends one batch to each of these tables; handles are open when this returns."""

    def rows(self, table: str) -> int:
        """How many rows the table has for someone who looks now."""

    def settle(self) -> None:
        """Wait for what goes on behind the commits."""

    def close(self) -> None: ...


class System(Protocol):
    key: str
    title: str
    atomic: bool
    """Whether one commit covers all tables."""
    environment: Environment
    """What its processes can import."""

    def refuses(self, place: Place, *, shared: bool) -> str:
        """Why it cannot be measured there, or nothing. `shared`: by several writers at once."""

    def create(self, place: Place, tables: Sequence[str]) -> None:
        """Make the tables, each with one batch."""

    def open(self, place: Place) -> Client: ...


@cache
def batch() -> pa.Table:
    """A hundred rows: a number, a short text, a vector of eight floats."""
    vectors = pa.array([float(n % 97) / 97 for n in range(ROWS * WIDTH)], pa.float32())
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "text": [f"a short text, number {n}" for n in range(ROWS)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, WIDTH),
        }
    )


class Quire:
    """One transaction over all tables. Threads share one lake, as they would in a program."""

    atomic = True

    def __init__(
        self, ledger: str, *, grouped: bool = True, environment: Environment = QUIRE, format: str = "lance"
    ) -> None:
        self.ledger, self.grouped, self.environment, self.format = ledger, grouped, environment, format
        self.key = f"quire-{ledger}" if grouped else f"quire-{ledger}-ungrouped"
        self.title = {"log": "Quire", "manifest": "Quire, __manifest ledger"}[ledger]
        if not grouped:
            self.title += ", one commit per slot"
        if environment is OLDER:
            self.key, self.title = "quire-older", "Quire, older revision"
        if format == "delta":
            self.key, self.title = "quire-delta", "Quire, Delta tables"

    def refuses(self, place: Place, *, shared: bool) -> str:
        return ""

    def create(self, place: Place, tables: Sequence[str]) -> None:
        import quire

        options = place.options or None
        with quire.create(place.at("lake"), storage_options=options, ledger=self.ledger) as lake:  # type: ignore[arg-type]
            with lake.transaction("tables") as tx:
                for table in tables:
                    if self.format == "lance":  # an older revision knows no other
                        tx.create_table(table, batch())
                    else:
                        tx.create_table(table, batch(), format=self.format)
            lake.flush()

    def open(self, place: Place) -> Client:
        return _QuireClient(place, grouped=self.grouped)


class _QuireClient:
    def __init__(self, place: Place, *, grouped: bool) -> None:
        import quire

        self._lake = quire.open(place.at("lake"), storage_options=place.options or None)
        if not grouped:
            self._lake._core.grouped = False

    def writer(self, tables: Sequence[str]) -> Write:
        snapshot = self._lake.snapshot()
        for table in tables:
            snapshot[table].count()

        def write() -> None:
            with self._lake.transaction("append") as tx:
                for table in tables:
                    tx[table].append(batch())

        return write

    def rows(self, table: str) -> int:
        return int(self._lake.snapshot()[table].count())

    def settle(self) -> None:
        self._lake.flush()

    def close(self) -> None:
        self._lake.close()


class Lance:
    """pylance on its own, one table after the other."""

    key = "lance"
    title = "pylance"
    atomic = False
    environment = LANCE

    def refuses(self, place: Place, *, shared: bool) -> str:
        return ""

    def create(self, place: Place, tables: Sequence[str]) -> None:
        import lance

        for table in tables:
            lance.write_dataset(batch(), place.at(f"{table}.lance"), storage_options=place.options or None)

    def open(self, place: Place) -> Client:
        import lance

        options = place.options or None
        return _LanceClient(lambda table: lance.dataset(place.at(f"{table}.lance"), storage_options=options))


class LanceNamespace:
    """Lance's directory namespace with `table_version_tracking_enabled`: each table's versions pass through it."""

    key = "lance-namespace"
    title = "Lance DirectoryNamespace"
    atomic = False
    environment = LANCE

    def refuses(self, place: Place, *, shared: bool) -> str:
        return ""

    def create(self, place: Place, tables: Sequence[str]) -> None:
        import lance

        client = _namespace(place)
        for table in tables:
            lance.write_dataset(
                batch(), namespace_client=client, table_id=[table], mode="create", storage_options=place.options or None
            )

    def open(self, place: Place) -> Client:
        import lance

        client, options = _namespace(place), place.options or None
        return _LanceClient(lambda t: lance.dataset(namespace_client=client, table_id=[t], storage_options=options))


def _namespace(place: Place) -> Any:
    from lance.namespace import DirectoryNamespace

    make: Callable[..., Any] = DirectoryNamespace
    storage = {f"storage.{key.removeprefix('aws_')}": value for key, value in place.options.items()}
    return make(root=place.root, table_version_tracking_enabled="true", **storage)


class _LanceClient:
    def __init__(self, find: Callable[[str], Any]) -> None:
        self._find = find

    def writer(self, tables: Sequence[str]) -> Write:
        handles = [self._find(table) for table in tables]

        def write() -> None:
            for handle in handles:
                handle.insert(batch(), mode="append")

        return write

    def rows(self, table: str) -> int:
        return int(self._find(table).count_rows())

    def settle(self) -> None:
        pass

    def close(self) -> None:
        pass


class Delta:
    """deltalake, one table after the other."""

    key = "delta"
    title = "deltalake"
    atomic = False
    environment = DELTA

    def refuses(self, place: Place, *, shared: bool) -> str:
        return ""

    def create(self, place: Place, tables: Sequence[str]) -> None:
        from deltalake import write_deltalake

        for table in tables:
            write_deltalake(place.at(table), batch(), storage_options=place.options or None)

    def open(self, place: Place) -> Client:
        return _DeltaClient(place)


class _DeltaClient:
    def __init__(self, place: Place) -> None:
        self._place = place

    def writer(self, tables: Sequence[str]) -> Write:
        from deltalake import CommitProperties, write_deltalake

        handles = [self._table(table) for table in tables]
        patient = CommitProperties(max_commit_retries=GIVE_UP_AFTER)

        def write() -> None:
            for handle in handles:
                write_deltalake(handle, batch(), mode="append", commit_properties=patient)

        return write

    def rows(self, table: str) -> int:
        return int(self._table(table).to_pyarrow_dataset().count_rows())

    def settle(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _table(self, table: str) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self._place.at(table), storage_options=self._place.options or None)


class Icechunk:
    """icechunk: arrays, not tables. A table is a group with one array per column; one session commits all groups."""

    key = "icechunk"
    title = "icechunk"
    atomic = True
    environment = ICECHUNK

    def refuses(self, place: Place, *, shared: bool) -> str:
        return "not safe for concurrent commits on a local disk, by its own warning" if place.on_disk and shared else ""

    def create(self, place: Place, tables: Sequence[str]) -> None:
        import icechunk
        import zarr

        session = icechunk.Repository.create(_ice_storage(place)).writable_session("main")
        root = zarr.group(session.store)
        for table in tables:
            group = root.create_group(table)
            for name, values in _columns().items():
                shape = (0, *values.shape[1:])
                dtype = str if name == "text" else values.dtype
                group.create_array(name, shape=shape, chunks=values.shape, dtype=dtype).append(values)
        session.commit("tables")

    def open(self, place: Place) -> Client:
        return _IceClient(place)


class _IceClient:
    def __init__(self, place: Place) -> None:
        import icechunk

        quiet()
        self._repo = icechunk.Repository.open(_ice_storage(place))
        self._pool = ThreadPoolExecutor(16)

    def writer(self, tables: Sequence[str]) -> Write:
        import icechunk

        def write() -> None:
            # A rebase cannot move an append after another append to the same array: then the session is made anew.
            for _ in range(GIVE_UP_AFTER):
                try:
                    return self._append(tables)
                except (icechunk.ConflictError, icechunk.RebaseFailedError):
                    continue
            raise TimeoutError(f"lost {GIVE_UP_AFTER} races in a row")

        return write

    def _append(self, tables: Sequence[str]) -> None:
        import icechunk
        import zarr

        session = self._repo.writable_session("main")
        root: Any = zarr.open_group(session.store, mode="r+")
        parts = [(table, name, values) for table in tables for name, values in _columns().items()]
        # One array after the other would wait for each chunk in turn.
        list(self._pool.map(lambda part: root[f"{part[0]}/{part[1]}"].append(part[2]), parts))
        session.commit("append", rebase_with=icechunk.ConflictDetector(), rebase_tries=GIVE_UP_AFTER)

    def rows(self, table: str) -> int:
        import zarr

        root: Any = zarr.open_group(self._repo.readonly_session("main").store, mode="r")
        return int(root[f"{table}/id"].shape[0])

    def settle(self) -> None:
        pass

    def close(self) -> None:
        self._pool.shutdown()


def _ice_storage(place: Place) -> Any:
    import icechunk

    if place.on_disk:
        return icechunk.local_filesystem_storage(place.at("ice"))
    bucket, _, prefix = place.at("ice").removeprefix("s3://").partition("/")
    return icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix,
        endpoint_url=place.options["aws_endpoint"],
        access_key_id=place.options["aws_access_key_id"],
        secret_access_key=place.options["aws_secret_access_key"],
        region=place.options["aws_region"],
        allow_http=True,
        force_path_style=True,
    )


@cache
def _columns() -> dict[str, Any]:
    """The batch as arrays."""
    import numpy as np

    data = batch()
    return {
        "id": data["id"].to_numpy(),
        "text": np.array(data["text"].to_pylist(), dtype=object),
        "vector": data["vector"].combine_chunks().flatten().to_numpy().reshape(ROWS, WIDTH),
    }


def quiet() -> None:
    """Keep warnings that every writer would repeat off the terminal."""
    warnings.filterwarnings("ignore", module="zarr")
    if "icechunk" in sys.modules:  # no other process has to load it
        import icechunk

        icechunk.set_logs_filter("error")


SYSTEMS: tuple[System, ...] = (
    Quire("log"),
    Quire("manifest"),
    Lance(),
    LanceNamespace(),
    Quire("log", format="delta"),
    Delta(),
    Icechunk(),
    DuckLake("postgres"),
    DuckLake("sqlite"),
)
APART: tuple[System, ...] = (Quire("log", grouped=False), Quire("log", environment=OLDER))
"""Known by their keys, and measured only where they are wanted."""


def system(key: str) -> System:
    """A system by its key."""
    for one in (*SYSTEMS, *APART):
        if one.key == key:
            return one
    raise KeyError(key)
