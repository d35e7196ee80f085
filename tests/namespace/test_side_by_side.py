"""Client processes, a writer of Quire, a collector and a compactor on one table, and processes that are killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.budget import budget
from tests.namespace.conftest import docs, ids, opened, sound

import quire
from quire.lance import Namespace
from quire.testing import processes

ROUNDS = budget(4, full=30)


def client(uri: str, number: int, told: str) -> None:
    """Appends and deletes its own rows, and writes down what it was told has happened."""
    with quire.open(uri) as lake:
        dataset = opened(Namespace(lake))
        for round_ in range(ROUNDS):
            first = 1000 * number + 10 * round_
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                dataset.insert(docs(first, first + 1))
                _say(told, f"+{first} +{first + 1}")
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                dataset.delete(f"id = {first}")
                _say(told, f"-{first}")


def writer(uri: str, number: int, told: str) -> None:
    with quire.open(uri) as lake:
        for round_ in range(ROUNDS):
            first = 1000 * number + 10 * round_
            with lake.transaction() as tx:
                tx["docs"].append(docs(first))
            _say(told, f"+{first}")


def upkeep(uri: str) -> None:
    with quire.open(uri) as lake:
        for _ in range(ROUNDS):
            with contextlib.suppress(quire.Conflict):
                lake.optimize()
            lake.cleanup(keep=3, older_than=0, grace=60)
            time.sleep(0.1)


def _say(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


@pytest.mark.slow
def test_every_acknowledged_row_is_there_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    with quire.create(uri) as lake:
        lake.create_table("docs", docs(0))
    context = processes.context()
    paths = [str(tmp_path / f"told-{n}") for n in range(1, 5)]
    clients = [context.Process(target=client, args=(uri, n, paths[n - 1])) for n in (1, 2, 3)]
    others = [context.Process(target=writer, args=(uri, 4, paths[3])), context.Process(target=upkeep, args=(uri,))]
    for process in (*clients, *others):
        process.start()
    time.sleep(random.uniform(1.0, 3.0))
    victim = clients[0]
    if victim.is_alive():
        os.kill(int(victim.pid or 0), signal.SIGKILL)
    for process in (*clients, *others):
        process.join(120)
    assert [process.exitcode for process in (*clients[1:], *others)] == [0, 0, 0, 0]

    with quire.open(uri) as lake:
        lake.recover()
        found = ids(lake)
        assert len(found) == len(set(found))
        for path in paths[1:]:
            words = Path(path).read_text().split() if Path(path).exists() else []
            assert words
            came, went = ({int(word[1:]) for word in words if word[0] == sign} for sign in "+-")
            assert came - went - set(found) == set(), "acknowledged rows are gone"
            assert went & set(found) == set(), "deleted rows came back"
        sound(lake)


def test_two_namespaces_of_one_lake_take_turns(lake: quire.Lake, namespace: Namespace) -> None:
    with quire.open(lake.uri) as same:
        first, second = opened(namespace), opened(Namespace(same))
        for number in range(10, 16):
            first.insert(docs(number))
            second.insert(docs(-number))
            second.delete(f"id = {-number}")
        assert ids(lake) == [0, 1, 2, 3, *range(10, 16)]
    sound(lake)
