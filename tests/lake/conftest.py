"""Two writers, one table: the stage on which conflicts play."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import lance
import pyarrow as pa
import pytest

import quire
from quire.lake.commit.transaction import Transaction, TransactionTable
from quire.lake.receipt import Receipt

Statement = Callable[[TransactionTable], Any]
Layout = Literal["one fragment", "two fragments"]

ROWS = {i: 10 * i for i in range(1, 9)}
"""What every raced table holds at first. Mine touch the low ids, theirs the high ones."""

LAYOUTS: dict[Layout, tuple[range, ...]] = {
    "one fragment": (range(1, 9),),
    "two fragments": (range(1, 5), range(5, 9)),
}


def rows(*ids: int, times: int = 10) -> pa.Table:
    """Rows with the given ids and `v = times * id`, so that a value that wandered shows."""
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([times * i for i in ids], pa.int64())})


def compact(lake: quire.Lake, name: str) -> Transaction:
    """A transaction that has rewritten every fragment of a table into one, ready to commit."""
    from lance import LanceOperation as Op
    from lance.fragment import FragmentMetadata, write_fragments

    tx = lake.transaction(f"compact {name}")
    edit = tx[name]._edit
    assert edit.base is not None
    work: Any = lake._core.format("lance").begin(edit.base.pin, write=tx.write, table=name)
    old = [f.metadata for f in work.draft.base.get_fragments()]
    [written] = write_fragments(work.draft.base.to_table(), work.draft.base, mode="append")
    described = {**written.to_json(), "id": max(f.id for f in old) + 1}
    new = FragmentMetadata.from_json(json.dumps(described))
    work.draft.chain(work.draft.stager.detach(work.draft.base, Op.Rewrite([Op.RewriteGroup(old, [new])], [])))
    edit.work = work
    edit.did("compact")
    return tx


class Race:
    """Two handles on one lake, opened apart, and a table `t` whose rows lie in one fragment or in two.

    race.mine(fn) stages, race.theirs(fn) commits in between, race.commit() tries to follow.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.a = quire.open(uri, backfill=False, author="mine")
        self.b = quire.open(uri, backfill=False, author="theirs")
        self.tx = self.a.transaction("mine")

    def close(self) -> None:
        self.a.close()
        self.b.close()

    # -- the race ---------------------------------------------------------------------------------------------

    def mine(self, statement: Statement) -> Any:
        return statement(self.tx["t"])

    def theirs(self, statement: Statement) -> Receipt:
        with self.b.transaction("theirs") as tx:
            statement(tx["t"])
        assert tx.receipt is not None
        assert tx.receipt.attempts == 1
        return tx.receipt

    def compacted(self) -> None:
        """The rival's compaction: every row moves to a new fragment, none changes."""
        before = self.fragments()
        self.b.refresh()
        compact(self.b, "t").commit()
        assert not set(before) & set(self.fragments())

    def commit(self) -> Receipt:
        """The second commit. Unless statements had to run again, it writes no data file."""
        for edit in self.tx.edits.values():
            if edit.work is not None:
                edit.work.settle()
        before = self.data_files()
        receipt = self.tx.commit()
        if not receipt.replayed:
            assert self.data_files() == before
        return receipt

    def refused(self, kind: type[quire.Conflict] = quire.Conflict) -> quire.Conflict:
        """The second commit fails with exactly this error, names the table, and leaves no trace."""
        head, before = self.b.refresh(), self.content() if "t" in self.b.snapshot() else None
        with pytest.raises(kind) as caught:
            self.tx.commit()
        assert type(caught.value) is kind
        assert caught.value.fields["table"] == "t"
        assert caught.value.next
        assert self.b.refresh() == head
        assert before is None or self.content() == before
        return caught.value

    # -- what is there now ------------------------------------------------------------------------------------

    def content(self, name: str = "t") -> list[tuple[Any, ...]]:
        """All rows, sorted, as a reader sees them who has just arrived."""
        with quire.open(self.uri, read_only=True) as lake:
            table = lake.snapshot()[name]
            found = table.to_arrow()
            assert table.count() == found.num_rows
            return sorted(tuple(r.values()) for r in found.to_pylist())

    def dataset(self, name: str = "t") -> lance.LanceDataset:
        """The pinned version, opened by Lance itself."""
        state = self.b.snapshot()._state.by_name(name)
        assert state is not None
        return lance.dataset(f"{self.uri}/{state.pin.location}", version=int(state.pin.version))

    def fragments(self, name: str = "t") -> list[str]:
        """The first data file of every fragment."""
        return [f.metadata.files[0].path for f in self.dataset(name).get_fragments()]

    def data_files(self) -> set[str]:
        return {str(p.relative_to(self.uri)) for p in Path(self.uri).glob("tables/*/data/*")}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    found: Layout = request.param
    return found


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Layout, str | None], Path]:
    """One lake of every kind that races are run on. A lake can be copied, so each race gets a copy."""
    made: dict[tuple[Layout, str | None], Path] = {}
    for layout, parts in LAYOUTS.items():
        for key in ("id", None):
            place = made[layout, key] = tmp_path_factory.mktemp("models") / "lake"
            with quire.create(place, backfill=False, author="setup") as lake:
                lake.create_table("t", rows(*parts[0]), key=key)
                for part in parts[1:]:
                    with lake.transaction() as tx:
                        tx["t"].append(rows(*part))
    return made


def _race(model: Path, place: Path, layout: Layout) -> Iterator[Race]:
    shutil.copytree(model, place)
    race = Race(str(place))
    assert len(race.fragments()) == len(LAYOUTS[layout])
    yield race
    race.close()


@pytest.fixture
def keyed(models: dict[tuple[Layout, str | None], Path], tmp_path: Path, layout: Layout) -> Iterator[Race]:
    """A race on a table whose key is `id`."""
    yield from _race(models[layout, "id"], tmp_path / "lake", layout)


@pytest.fixture
def unkeyed(models: dict[tuple[Layout, str | None], Path], tmp_path: Path, layout: Layout) -> Iterator[Race]:
    """A race on a table without a key."""
    yield from _race(models[layout, None], tmp_path / "lake", layout)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    """An empty lake on local disk, without background backfill."""
    with quire.create(str(tmp_path / "lake"), backfill=False, author="ada") as made:
        yield made


def after(changes: dict[int, int | None] | None = None, *more: tuple[int, int]) -> list[tuple[int, int]]:
    """The first rows with some values changed (None: gone), and rows that came, sorted."""
    now = {**ROWS, **(changes or {})}
    return sorted([*((i, v) for i, v in now.items() if v is not None), *more])
