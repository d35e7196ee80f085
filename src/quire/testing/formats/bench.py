"""A format on a place of its own, and the steps that its tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pytest

from quire.formats import Staged, TableFormat, Work
from quire.ledger import Change, Pin
from quire.store import Store

Make = Callable[[Store], TableFormat]
Row = tuple[Any, ...]
Act = Callable[[Work], Any]

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("w", pa.string())])
LOCATION = "tables/t"


class Plain(Protocol):
    """A table as a client has it that knows nothing of Quire."""

    def version(self) -> int: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def append(self, data: pa.Table) -> None: ...
    def delete(self, where: str) -> None: ...


def rows(*ids: int, times: int = 10, w: str | None = "a") -> pa.Table:
    """Rows with the given ids and `v = times * id`, so that a value that wandered shows."""
    columns = [pa.array(ids, pa.int64()), pa.array([times * i for i in ids], pa.int64()), pa.array([w] * len(ids))]
    return pa.table([columns[0], columns[1], columns[2].cast(pa.string())], schema=SCHEMA)


def values(*ids: int, times: int = 10, w: str | None = "a") -> list[Row]:
    """What `rows` of the same arguments look like when read."""
    return [(i, times * i, w) for i in ids]


def listed(table: pa.Table) -> list[Row]:
    """All rows, sorted."""
    return sorted((tuple(r.values()) for r in table.to_pylist()), key=repr)


class Bench:
    """One format on one place. `again` opens the place as another program would."""

    def __init__(self, make: Make, uri: str) -> None:
        self.make, self.uri = make, uri
        self.store = Store.open(uri)
        self.format = make(self.store)

    def again(self) -> TableFormat:
        return self.make(Store.open(self.uri))

    def create(self, data: Any = None, *, schema: Any = None, location: str = LOCATION) -> Pin:
        data = rows(1, 2, 3) if data is None and schema is None else data
        work = self.format.create(location, data, schema=schema, write="w0", stable_row_ids=False, table="t")
        return work.stage().pin

    def parts(self, *parts: Sequence[int]) -> Pin:
        """A table whose rows were appended in these parts."""
        pin = self.create(rows(*parts[0]))
        for part in parts[1:]:
            pin = self.change(pin, lambda w, part=part: w.rows.append(rows(*part), missing="error"))  # type: ignore[misc]
        return pin

    def begin(self, pin: Pin) -> Work:
        return self.format.begin(pin, write="w", table="t")

    def stage(self, pin: Pin, *acts: Act) -> Staged:
        """Some statements in one transaction on `pin`."""
        work = self.begin(pin)
        for act in acts:
            act(work)
        return work.stage()

    def change(self, pin: Pin, *acts: Act) -> Pin:
        return self.stage(pin, *acts).pin

    def content(self, pin: Pin, format_: TableFormat | None = None) -> list[Row]:
        """All rows of a pin, sorted, as another program reads them; the pin's own count must agree."""
        view = (format_ or self.again()).open(pin, "t")
        found = view.scan().read_all()
        assert found.num_rows == pin.rows == view.count(), "the pin's number of rows, a count and a scan differ"
        return listed(found)

    def data_files(self) -> set[str]:
        return {e.key for e in self.store.list(LOCATION) if "/data/" in e.key}


def change_of(staged: Staged, *ops: Any) -> Change:
    """What the record of a commit would say about this."""
    return Change(
        table="t",
        name="t",
        ops=ops,
        pin=staged.pin,
        keys=staged.keys,
        added=staged.added,
        removed=staged.removed,
    )


class Conformance:
    """Base of the suites: the place, and the format on it."""

    indexes = True
    """Whether tables of the format have indexes."""

    @pytest.fixture
    def format(self) -> Make:
        raise NotImplementedError("give a fixture `format`: a callable that makes the format for a store")

    @pytest.fixture
    def uri(self, tmp_path: Any) -> str:
        return str(tmp_path / "place")

    def plain(self, store: Store, location: str) -> Plain:
        raise NotImplementedError("give a method `plain`: a client of the tables that knows nothing of Quire")

    @pytest.fixture
    def bench(self, format: Make, uri: str) -> Bench:
        return Bench(format, uri)
