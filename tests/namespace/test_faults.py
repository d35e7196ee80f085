"""Answers that are lost, and processes that are killed between any two steps: rows exactly once, no file gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import pyarrow as pa
import pytest
from tests.namespace.conftest import docs, ids, opened, sound

import quire
from quire.lance import Namespace
from quire.testing.crash import PLAIN, POINTS, SLOT, Point, crash

OPERATIONS: dict[str, tuple[Callable[[Any], Any], list[int]]] = {
    "append": (lambda d: d.insert(docs(10)), [0, 1, 2, 3, 10]),
    "merge": (
        lambda d: d.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9)),
        [0, 1, 2, 3, 9],
    ),
    "index": (lambda d: d.create_scalar_index("id", "BTREE"), [0, 1, 2, 3]),
    "schema": (lambda d: d.add_columns({"twice": "id * 2"}), [0, 1, 2, 3]),
}


class Lossy(Namespace):
    """A namespace on a bad line: the answers to new versions are lost, a number of times."""

    lost = 0

    def create_table_version(self, request: Any) -> Any:
        made = super().create_table_version(request)
        if self.lost:
            self.lost -= 1
            raise spec.ServiceUnavailableError("the answer was lost")
        return made


@pytest.mark.parametrize("what", OPERATIONS)
def test_a_lost_answer_is_found_out_by_the_client(lake: quire.Lake, what: str) -> None:
    write, expected = OPERATIONS[what]
    namespace = Lossy(lake)
    dataset = opened(namespace)
    namespace.lost = 1

    write(dataset)

    assert dataset.version == 2
    assert ids(lake) == expected
    assert lake.refresh() == "2.0"
    assert lance.dataset(dataset.uri).to_table().num_rows == len(expected)
    sound(lake)


@pytest.mark.parametrize("what", OPERATIONS)
def test_a_lost_answer_beside_a_commit_of_quire(lake: quire.Lake, what: str) -> None:
    """The version stays at its number with the client's own transaction, whatever Quire commits meanwhile."""
    write, expected = OPERATIONS[what]

    class Busy(Lossy):
        def create_table_version(self, request: Any) -> Any:
            try:
                return super().create_table_version(request)
            except spec.ServiceUnavailableError:
                with self.lake.transaction() as tx:
                    row = {"id": 50, "text": "rival"} | ({"twice": 1} if what == "schema" else {})
                    tx["docs"].append([row])
                self.lake.backfill()
                raise

    namespace = Busy(lake)
    dataset = opened(namespace)
    namespace.lost = 1
    write(dataset)

    assert dataset.version == 2
    assert ids(lake) == sorted([*expected, 50])
    assert lake.refresh() == "3.0"
    sound(lake)


def write_as_client(uri: str, what: str) -> None:
    """One write of a client, in a process that may end at any point of it."""
    lake = quire.open(uri)
    OPERATIONS[what][0](opened(Namespace(lake)))
    lake.close()


STAGED = r"^_versions/d\d+\.manifest$"
BEFORE = {
    "the copy is not kept": Point("quire.store.store:Store.put", "before", match=STAGED),
    "the copy is kept": Point("quire.store.store:Store.put", "after", match=STAGED),
    "before the slot": Point("quire.store.store:Store.create", "before", match=SLOT),
}
AFTER = {
    "the slot is there": POINTS["publish: slot created"],
    "not yet in the line": Point("quire.store.store:Store.create", "before", match=PLAIN),
    "in the line": Point("quire.store.store:Store.create", "after", match=PLAIN),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["append", pytest.param("merge", marks=pytest.mark.full), "index", "schema"])
@pytest.mark.parametrize("where", [*BEFORE, *AFTER])
def test_a_process_is_killed_while_it_publishes(tmp_path: Path, where: str, what: str) -> None:
    uri = str(tmp_path / "lake")
    with quire.create(uri) as lake:
        lake.create_table("docs", [{"id": n, "text": f"text {n}"} for n in range(4)])
        lake.backfill()

    crash({**BEFORE, **AFTER}[where], write_as_client, uri, what)

    with quire.open(uri) as lake:
        lake.recover()
        done = where in AFTER
        assert lake.head == ("2.0" if done else "1.0")
        expected = OPERATIONS[what][1] if done else [0, 1, 2, 3]
        assert ids(lake) == expected
        sound(lake)
        with lake.transaction() as tx:
            tx["docs"].delete("id = 0")
        dataset = opened(Namespace(lake))
        dataset.delete("id = 1")
        assert ids(lake) == [n for n in expected if n > 1]
        sound(lake)


def test_what_was_promised_is_kept_before_later_commits_are_shown(tmp_path: Path) -> None:
    """Killed between publish and the line; then others commit, and none of them has heard of the version's client."""
    uri = str(tmp_path / "lake")
    with quire.create(uri) as lake:
        lake.create_table("docs", [{"id": n, "text": f"text {n}"} for n in range(4)])
        lake.backfill()
    crash(AFTER["not yet in the line"], write_as_client, uri, "append")
    with quire.open(uri, backfill=False) as lake:
        with lake.transaction() as tx:
            tx["docs"].delete("id = 10")
        with lake.transaction() as tx:
            tx["docs"].append(docs(60))
    with quire.open(uri) as lake:
        lake.backfill()
        plain = lance.dataset(f"{uri}/{lake.snapshot()['docs']._state.pin.location}")
        assert plain.checkout_version(2).to_table()["id"].to_pylist() == [0, 1, 2, 3, 10]
        assert dict(plain.checkout_version(2).read_transaction(2).transaction_properties or {}) == {}
        assert ids(lake) == [0, 1, 2, 3, 60]
        sound(lake)


def test_cleanup_leaves_versions_of_clients_that_are_needed(lake: quire.Lake, namespace: Namespace) -> None:
    dataset = opened(namespace)
    for number in range(20, 26):
        dataset.insert(docs(number))
    lance.write_dataset(docs(1), namespace_client=namespace, table_id=["made"])
    declared = namespace.declare_table(spec.DeclareTableRequest(id=["promised"]))
    given_up = namespace.declare_table(spec.DeclareTableRequest(id=["given-up"]))
    namespace.deregister_table(spec.DeregisterTableRequest(id=["given-up"]))
    staged = [Path(str(place.location)) / "data" / "rows.lance" for place in (declared, given_up)]
    for path in staged:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"rows")
    lake.backfill()
    for path in Path(lake.uri).rglob("*"):
        os.utime(path, (1.6e9, 1.6e9))
    done = lake.cleanup(keep=2, older_than=0, grace=0)
    assert done.files > 6
    assert [path.exists() for path in staged] == [True, False]
    sound(lake)
    dataset.insert(docs(30))
    opened(namespace, "made").insert(docs(2))
    made = lance.write_dataset(
        pa.table({"a": [1]}), namespace_client=namespace, table_id=["promised"], mode="overwrite"
    )
    assert made.count_rows() == 1
    assert ids(lake) == [0, 1, 2, 3, *range(20, 26), 30]
    sound(lake)
