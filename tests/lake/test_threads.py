"""One lake handle in many threads."""

from __future__ import annotations

import threading
from pathlib import Path

import quire


def test_readers_beside_a_writer_never_disturb_its_outcome(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 0}])
    done = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        while not done.is_set():
            try:
                lake.snapshot()
            except BaseException as error:
                problems.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        receipts = []
        for number in range(1, 31):
            with lake.transaction() as tx:
                tx["t"].append([{"id": number}])
            assert tx.status == "committed"
            receipts.append(tx.receipt)
    finally:
        done.set()
        for reader in readers:
            reader.join()

    assert problems == []
    assert len({r.commit for r in receipts if r}) == 30
    assert sorted(r["id"] for r in lake["t"].to_pylist()) == list(range(31))


def test_an_index_is_built_while_another_transaction_appends_to_the_same_state(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": n, "v": n} for n in range(100)])

    def append(number: int) -> None:
        with lake.transaction() as tx:
            tx["t"].append([{"id": number, "v": number}])

    for turn in range(5):
        threads = [threading.Thread(target=append, args=(1000 + 10 * turn + n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        lake.transact(lambda tx: tx["t"].create_index("v", replace=True))
        for thread in threads:
            thread.join()

    table = lake["t"]
    assert table.count() == 115
    assert [r["id"] for r in table.scan(filter="v = 1021").to_pylist()] == [1021]
