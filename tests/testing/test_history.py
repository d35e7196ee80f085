"""The history checker: every anomaly is found and named, and what is allowed is left alone."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quire.errors import InvalidInput
from quire.testing.history import KINDS, Journal, Op, Transaction, append, check, load, read, write


def tx(id: str, *ops: Op, **fields: Any) -> Transaction:
    return Transaction(id, ops, **fields)


LISTS: dict[str, list[list[Transaction]]] = {
    "unwritten-read": [[tx("a", append("x", 1)), tx("b", read("x", [1, 7]))]],
    "duplicate-append": [
        [tx("a", append("x", 1)), tx("b", append("x", 2)), tx("c", read("x", [1, 2, 1]))],
        [tx("a", append("x", 1), status="unknown"), tx("b", read("x", [1, 1]))],
    ],
    "lost-append": [
        [tx("a", append("x", 1), process=1), tx("b", read("x", []), process=1)],
        [tx("a", append("x", 1), start=1, end=2), tx("b", read("x", []), start=3, end=4, fresh=True)],
        # It was there once, and then it was not.
        [
            tx("a", append("x", 1), start=1, end=2),
            tx("b", read("x", [1]), start=3, end=4, fresh=True),
            tx("c", read("x", []), start=5, end=6, fresh=True),
        ],
        # Another one took its place.
        [
            tx("a", append("x", 1), start=1, end=2),
            tx("b", append("x", 2), start=1, end=2),
            tx("c", read("x", [2]), start=5, end=6, fresh=True),
        ],
    ],
    "incompatible-order": [
        [
            tx("a", append("x", 1)),
            tx("b", append("x", 2)),
            tx("c", read("x", [1, 2])),
            tx("d", read("x", [2])),
        ],
    ],
    "non-repeatable-read": [
        [tx("a", append("x", 1)), tx("b", read("x", []), read("x", [1]))],
        [tx("a", append("x", 1), read("x", []))],
        [tx("a", read("x", []), append("x", 1), read("x", []), append("x", 2))],
        [tx("a", write("x", 1), read("x", None))],
        [tx("a", write("x", 1)), tx("b", read("x", 1), read("x", None))],
    ],
    "dirty-read": [
        [tx("a", append("x", 1), status="fail"), tx("b", read("x", [1]))],
        [tx("a", write("x", 1), status="fail"), tx("b", read("x", 1), write("x", 2)), tx("c", read("x", 2))],
    ],
    "intermediate-read": [
        [tx("a", append("x", 1), append("x", 2)), tx("b", read("x", [1])), tx("c", read("x", [1, 2]))],
        [tx("a", append("x", 1), append("x", 2)), tx("b", read("x", [1]))],
        [tx("a", write("x", 1), write("x", 2)), tx("b", read("x", 1))],
    ],
    "dirty-write": [
        [
            tx("a", append("x", 1), append("y", 1)),
            tx("b", append("x", 2), append("y", 2)),
            tx("c", read("x", [1, 2])),
            tx("d", read("y", [2, 1])),
        ],
        [tx("a", append("x", 1), append("x", 3)), tx("b", append("x", 2)), tx("c", read("x", [1, 2, 3]))],
    ],
    "circular-information-flow": [
        [tx("a", append("x", 1), read("y", [1])), tx("b", append("y", 1), read("x", [1]))],
        [tx("a", write("x", 1), read("y", 1)), tx("b", write("y", 1), read("x", 1))],
        # Nobody has read b's append to x, so it lies after a's.
        [
            tx("a", append("x", 1), read("y", [1])),
            tx("b", append("x", 2), append("y", 1)),
            tx("c", read("x", [1])),
        ],
    ],
    "out-of-order": [
        [tx("a", read("x", [1]), process=1), tx("b", append("x", 1), process=1)],
        [tx("a", append("x", 1), process=1), tx("b", append("x", 2), process=1), tx("c", read("x", [2, 1]))],
        [tx("a", read("x", [1]), start=1, end=2), tx("b", append("x", 1), start=3, end=4, fresh=True)],
    ],
    "lost-update": [
        [
            tx("a", read("x", []), append("x", 1)),
            tx("b", read("x", []), append("x", 2)),
            tx("c", read("x", [1, 2])),
        ],
        [
            tx("0", append("x", 0)),
            tx("a", read("x", [0]), append("x", 1)),
            tx("b", read("x", [0, 1]), append("x", 2)),
            tx("c", read("x", [0]), append("x", 3)),
            tx("d", read("x", [0, 1, 2, 3])),
        ],
        [tx("0", write("x", 0)), tx("a", read("x", 0), write("x", 1)), tx("b", read("x", 0), write("x", 2))],
        [tx("0", append("x", 0)), tx("a", read("x", [0]), append("x", 1)), tx("b", read("x", [0]), append("x", 2))],
        [tx("a", read("x", None), write("x", 1)), tx("b", read("x", None), write("x", 2))],
    ],
    "fractured-read": [
        [tx("a", append("x", 1), append("y", 1)), tx("b", read("x", [1]), read("y", []))],
        # A transaction of unknown outcome is proven by one half of it; the other half must be there too.
        [tx("a", append("x", 1), append("y", 1), status="unknown"), tx("b", read("x", [1]), read("y", []))],
        [tx("a", append("x", 1), append("y", 1)), tx("b", read("x", [1]), append("x", 2), read("y", []))],
        [
            tx("0", write("x", 0), write("y", 0)),
            tx("a", read("x", 0), read("y", 0), write("x", 1), write("y", 1)),
            tx("b", read("x", 1), read("y", 0)),
        ],
    ],
    "stale-read": [
        [
            tx("a", append("x", 1), start=1, end=2),
            tx("b", read("x", []), start=3, end=4, fresh=True),
            tx("c", read("x", [1]), start=5, end=6, fresh=True),
        ],
        [
            tx("a", read("x", [1]), process=1),
            tx("b", read("x", []), process=1),
            tx("c", append("x", 1), process=2),
        ],
    ],
    "read-skew": [
        [
            tx("a", append("x", 1)),
            tx("b", read("x", [1]), append("y", 1)),
            tx("c", read("y", [1]), read("x", [])),
        ],
        # Two transactions that wrote one key were apart, yet the second has not seen the first.
        [
            tx("a", append("x", 1), append("y", 1)),
            tx("b", append("x", 2), read("y", [])),
            tx("c", read("x", [1, 2])),
        ],
    ],
    "long-fork": [
        [
            tx("a", append("x", 1)),
            tx("b", append("y", 1)),
            tx("c", read("x", [1]), read("y", [])),
            tx("d", read("y", [1]), read("x", [])),
        ],
    ],
}
LEVELS = ("snapshot", "serializable")
FORBIDDEN = [
    pytest.param(kind, history, level, id=f"{kind}-{number}-{level}")
    for kind, histories in LISTS.items()
    for number, history in enumerate(histories)
    for level in LEVELS
]
WRITE_SKEW = [
    [
        tx("a", read("x", []), read("y", []), append("x", 1)),
        tx("b", read("x", []), read("y", []), append("y", 1)),
        tx("c", read("x", [1]), read("y", [1])),
    ],
    [tx("a", read("x", None), write("y", 1)), tx("b", read("y", None), write("x", 1))],
    # A reader shows that two writers that are fine by themselves have no serial order (Fekete, O'Neil and O'Neil).
    [
        tx("a", read("x", []), read("y", []), append("x", 1)),
        tx("b", read("y", []), append("y", 1)),
        tx("c", read("x", []), read("y", [1])),
        tx("d", read("x", [1]), read("y", [1])),
    ],
]


@pytest.mark.parametrize(("kind", "history", "level"), FORBIDDEN)
def test_an_anomaly_is_found_named_and_explained_and_nothing_else_is(
    kind: str, history: list[Transaction], level: Any
) -> None:
    report = check(history, level)

    assert [a.kind for a in report.anomalies] == [kind], str(report)
    [anomaly] = report.anomalies
    assert set(anomaly.transactions) <= {t.id for t in history}
    assert anomaly.keys
    assert all(str(t) in anomaly.explanation for t in anomaly.transactions)
    assert all(repr(k) in anomaly.explanation for k in anomaly.keys)


@pytest.mark.parametrize("history", WRITE_SKEW)
def test_write_skew_is_found_when_the_level_is_serializable(history: list[Transaction]) -> None:
    report = check(history, "serializable")

    assert report.kinds == ["write-skew"], str(report)
    assert check(history, "snapshot").ok


@pytest.mark.parametrize("history", WRITE_SKEW)
def test_write_skew_among_serializable_transactions_is_found_at_any_level(history: list[Transaction]) -> None:
    strict = [replace(t, isolation="serializable") for t in history]
    assert check(strict, "snapshot").kinds == ["write-skew"]
    assert check([replace(strict[0], isolation="snapshot"), *strict[1:]], "snapshot").ok


def test_every_anomaly_that_is_documented_has_a_history_here() -> None:
    assert {*LISTS, "write-skew"} == set(KINDS)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [tx("a", read("x", []))],
        [
            tx("a", append("x", 1), append("x", 2)),
            tx("b", read("x", [1, 2]), append("x", 3)),
            tx("c", read("x", [1, 2])),
        ],
        # Seen or not seen, both may be.
        [tx("a", append("x", 1), status="unknown"), tx("b", read("x", []))],
        [tx("a", append("x", 1), status="unknown"), tx("b", read("x", [1]))],
        # An unknown outcome may land late: its own process goes on without it, and sees it later.
        [
            tx("a", append("x", 1), status="unknown", process=1),
            tx("b", read("x", []), process=1),
            tx("c", read("x", [1]), process=1),
        ],
        [tx("a", append("x", 1), status="fail"), tx("b", read("x", []))],
        # Who does not ask for the newest may see what is old.
        [tx("a", append("x", 1), start=1, end=2), tx("b", read("x", []), start=3, end=4)],
        [tx("a", write("x", 1)), tx("b", read("x", 1), write("x", 2)), tx("c", read("x", 1)), tx("d", read("x", 2))],
        [tx("a", append("x", 1), read("x", [1])), tx("b", read("x", [1]))],
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_a_clean_history_is_clean(history: list[Transaction], level: Any) -> None:
    report = check(history, level)
    assert report.ok, str(report)


def test_a_read_proves_an_unknown_outcome_and_what_that_transaction_read_counts_then() -> None:
    history = [
        tx("a", append("x", 1), read("y", [1]), status="unknown"),
        tx("b", append("y", 1), status="unknown"),
        tx("c", append("z", 1), status="unknown"),
        tx("d", read("x", [1])),
    ]
    report = check(history)
    assert (report.transactions, report.committed, report.proven) == (4, 3, 2)
    assert dict(report.edges) == {"wr": 2}


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([tx("a"), tx("a")], "Two transactions"),
        ([tx("a", append("x", 1)), tx("b", append("x", 1))], "twice"),
        ([tx("a", append("x", 1)), tx("b", write("x", 2))], "both a list and a register"),
    ],
)
def test_a_history_that_proves_nothing_is_refused(history: list[Transaction], text: str) -> None:
    with pytest.raises(InvalidInput, match=text) as refused:
        check(history)
    assert refused.value.next
    with pytest.raises(InvalidInput):
        check([], "linearizable")  # type: ignore[arg-type]


def test_a_journal_keeps_what_a_killed_process_had_begun(tmp_path: Path) -> None:
    moments = itertools.count(1.0)
    journal = Journal(tmp_path / "a", "one", clock=lambda: next(moments))
    with journal.transaction("t1", fresh=True) as notes:
        notes.read("x", [])
        notes.again()
        notes.read("x", [1])
        notes.append("x", 2)
        notes.ok()
    with contextlib.suppress(ZeroDivisionError), journal.transaction("t2", isolation="serializable") as notes:
        notes.write("y", 1)
        notes.commit()
        raise ZeroDivisionError
    with journal.transaction("t3") as notes:
        notes.read("y", 1)
        notes.fail()
    journal.close()
    with open(tmp_path / "a", "ab") as torn:
        torn.write(b'{"process": "one", "id": "t4", "wha')

    assert load([tmp_path / "a"]) == [
        Transaction("t1", [read("x", [1]), append("x", 2)], "ok", "one", 1.0, 3.0, fresh=True),
        Transaction("t2", [write("y", 1)], "unknown", "one", 4.0, isolation="serializable"),
        Transaction("t3", [read("y", 1)], "fail", "one", 7.0, 9.0),
    ]
