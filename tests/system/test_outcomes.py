"""Answers get lost: the outcome of a commit is committed, conflict or unknown, and unknown can be settled."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.lake.crowd import crowd
from tests.system.writers import SCHEMA, TABLES, rows

import quire
from quire.store import conditional_put
from quire.store.backend import Failure, Follows, Reason


class Unreliable:
    """A store's connection that does what it is asked and loses the answer, or does not even do it.

    `lose` holds what becomes of the next slots' writes: "answer" (done, but the answer is lost), "request" (not done),
    "taken" (done, and a repetition inside the client finds the key taken) or "heard" (done). Reads fail while
    `deaf` is set.
    """

    def __init__(self, real: Any, *lose: str) -> None:
        self._real = real
        self.lose = list(lose)
        self.deaf = False
        self.deaf_after: int | None = None
        """Reads fail once so many slots were sent."""
        self.sent = 0

    def create(self, key: str, data: bytes) -> None:
        self._send(key, partial(self._real.create, key, data))

    def _extend(self, key: str, data: bytes, follows: Follows) -> None:
        self._send(key, partial(self._real.extend, key, data, follows))

    def _send(self, key: str, create: Callable[[], None]) -> None:
        if not key.startswith("_quire/log/") or "checkpoint" in key:
            create()
            return
        self.sent += 1
        fault = self.lose.pop(0) if self.lose else None
        if fault != "request":
            create()
        if fault == "heard":
            return
        if fault == "taken":
            raise Failure(Reason.EXISTS, "precondition failed")
        if fault is not None:
            raise Failure(Reason.FAILED, "connection reset")

    def get(self, key: str) -> bytes:
        if self.deaf or (self.deaf_after is not None and self.sent > self.deaf_after):
            raise Failure(Reason.FAILED, "connection reset")
        found: bytes = self._real.get(key)
        return found

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return self._extend if name == "extend" else found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repetitions follow at once."""
    monkeypatch.setattr(conditional_put, "_FIRST_PAUSE", 0.001)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> quire.Lake:
    if request.param == "local":
        made = quire.create(tmp_path / "lake")
    else:
        s3 = request.getfixturevalue("s3")
        made = quire.create(s3.uri(uuid.uuid4().hex), storage_options=s3.options)
    with made.transaction("tables") as tx:
        for table in TABLES:
            tx.create_table(table, schema=SCHEMA)
    made.flush()
    return made


def lose(lake: quire.Lake, *faults: str) -> Unreliable:
    """Make the connection of this handle unreliable, below everything that is Quire's."""
    store = lake._core.store
    connection = Unreliable(store._backend, *faults)
    store._backend = connection  # type: ignore[assignment]
    return connection


def another(lake: quire.Lake) -> quire.Lake:
    """A handle with a connection of its own."""
    return quire.open(lake.uri, storage_options=lake._core.store.options)


def append(lake: quire.Lake, seq: int) -> quire.Transaction:
    with lake.transaction(f"{seq}") as tx:
        for table in TABLES:
            tx[table].append(rows(1, seq))
    return tx


def found(lake: quire.Lake) -> list[list[int]]:
    snapshot = another(lake).snapshot()
    return [sorted(snapshot[table].to_arrow()["seq"].to_pylist()) for table in TABLES]


@pytest.mark.parametrize("fault", ["answer", "taken", "request"])
def test_a_lost_answer_is_made_up_for_by_reading_the_slot(lake: quire.Lake, fault: str) -> None:
    connection = lose(lake, fault)

    tx = append(lake, 7)

    assert tx.status == "committed"
    assert connection.sent == (2 if fault == "request" else 1)
    assert found(lake) == [[7], [7]]
    assert [c.message for c in another(lake).log()] == ["7", "tables", "create lake"]


def test_a_commit_that_landed_unheard_is_unknown_and_then_committed(lake: quire.Lake) -> None:
    connection = lose(lake, "answer")
    connection.deaf = True

    with pytest.raises(quire.CommitUnknown) as unknown:
        append(lake, 7)

    assert unknown.value.fields["branch"] == "main"
    assert unknown.value.fields["slot"] == 2
    connection.deaf = False
    assert lake.outcome(unknown.value) is quire.Outcome.COMMITTED
    assert found(lake) == [[7], [7]]


@pytest.mark.parametrize("landed", [True, False])
def test_every_member_of_a_group_can_settle_its_own_outcome(lake: quire.Lake, landed: bool) -> None:
    connection = lose(lake)
    with crowd(lake, lambda tx: tx["debits"].append(rows(1, 0))) as together:
        for seq in (1, 2, 3):
            together.commit(f"c{seq}", lambda tx, seq=seq: [tx[t].append(rows(1, seq)) for t in TABLES])  # type: ignore[misc]
        # The first has a slot for itself, and is heard; the group is not.
        connection.lose = ["heard", *(["answer"] if landed else ["request"] * 9)]
        connection.deaf_after = 1

    assert set(together.errors) == {"c1", "c2", "c3"}
    connection.deaf_after = None
    unknown = [together.errors[f"c{seq}"] for seq in (1, 2, 3)]
    assert all(isinstance(error, quire.CommitUnknown) for error in unknown)
    assert len({error.token for error in unknown}) == 3  # type: ignore[attr-defined]
    if not landed:
        assert {lake.outcome(error) for error in unknown} == {quire.Outcome.UNKNOWN}  # type: ignore[arg-type]
        append(another(lake), 9)
    settled = quire.Outcome.COMMITTED if landed else quire.Outcome.CONFLICT
    assert [lake.outcome(error) for error in unknown] == [settled] * 3  # type: ignore[arg-type]
    assert found(lake) == ([[0, 1, 2, 3], [1, 2, 3]] if landed else [[0, 9], [9]])


def test_a_commit_that_never_landed_is_unknown_until_somebody_takes_its_slot(lake: quire.Lake) -> None:
    connection = lose(lake, "request", "request", "request", "request", "request", "request")
    connection.deaf = True

    with pytest.raises(quire.CommitUnknown) as unknown:
        append(lake, 7)

    connection.deaf = False
    assert lake.outcome(unknown.value) is quire.Outcome.UNKNOWN
    append(another(lake), 8)
    assert lake.outcome(unknown.value) is quire.Outcome.CONFLICT
    assert found(lake) == [[8], [8]]


def test_a_transaction_with_an_unknown_outcome_is_over_and_knows_how_to_be_settled(lake: quire.Lake) -> None:
    connection = lose(lake, "answer")
    connection.deaf = True
    tx = lake.transaction("unheard")
    for table in TABLES:
        tx[table].append(rows(1, 7))

    with pytest.raises(quire.CommitUnknown):
        tx.commit()

    connection.deaf = False
    assert tx.status == "unknown"
    with pytest.raises(quire.errors.TransactionClosed):
        tx.commit()
    assert lake.outcome(tx) is quire.Outcome.COMMITTED


def test_the_token_of_an_unknown_outcome_settles_it_elsewhere(lake: quire.Lake) -> None:
    connection = lose(lake, "answer")
    connection.deaf = True
    with pytest.raises(quire.CommitUnknown) as unknown:
        append(lake, 7)
    connection.deaf = False
    token = unknown.value.token
    assert token is not None
    assert unknown.value.to_dict()["token"] == token
    elsewhere = another(lake)
    assert elsewhere.outcome(token) is quire.Outcome.COMMITTED
    log, slot, _ = token.split("/")
    assert elsewhere.outcome(f"{log}/{slot}/{'0' * 16}") is quire.Outcome.CONFLICT
    assert elsewhere.outcome(f"{log}/{int(slot) + 1}/{'0' * 16}") is quire.Outcome.UNKNOWN
    for nonsense in ("", "x", f"../{slot}/abc", f"{log}/-1/abc", f"{log}/{slot}/", f"{log}/{slot}/a/b"):
        with pytest.raises(quire.errors.InvalidInput):
            elsewhere.outcome(nonsense)


@pytest.mark.parametrize("landed", [True, False])
def test_a_handle_goes_on_after_an_unknown_outcome(lake: quire.Lake, landed: bool) -> None:
    connection = lose(lake, *(["answer"] if landed else ["request"] * 5))
    connection.deaf = True
    with pytest.raises(quire.CommitUnknown):
        append(lake, 7)
    connection.deaf, connection.lose = False, []

    append(lake, 8)

    assert found(lake) == ([[7, 8], [7, 8]] if landed else [[8], [8]])
    lake.flush()


def test_transact_does_not_run_again_after_an_unknown_outcome(lake: quire.Lake) -> None:
    connection = lose(lake, "answer")
    runs = []

    def program(tx: quire.Transaction) -> None:
        runs.append(tx)
        connection.deaf = True
        for table in TABLES:
            tx[table].append(rows(1, 7))

    with pytest.raises(quire.CommitUnknown):
        lake.transact(program)

    connection.deaf = False
    assert len(runs) == 1
    assert found(lake) == [[7], [7]]


def test_a_token_makes_it_safe_to_repeat_a_commit_whose_outcome_was_unknown(lake: quire.Lake) -> None:
    connection = lose(lake, "answer")
    connection.deaf = True
    token = quire.token()

    def program(tx: quire.Transaction) -> None:
        for table in TABLES:
            tx[table].append(rows(1, 7))

    with pytest.raises(quire.CommitUnknown):
        lake.transact(program, token=token)
    connection.deaf = False
    another(lake).transact(program, token=token)

    assert found(lake) == [[7], [7]]
