"""What an engine is, and who runs the tasks."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from quire.errors import InvalidInput, NotFound
from quire.lake import engines
from quire.testing.tasks import PickledTasks


def test_this_process_is_the_engine_unless_another_is_given() -> None:
    assert engines.chosen("local") is None
    assert engines.slots(None) == 1


@pytest.mark.parametrize("wrong", ["sparc", "", None, 3, object()])
def test_what_is_no_engine_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="is not an engine"):
        engines.chosen(wrong)


def test_auto_asks_for_the_size_only_where_a_session_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    session, asked = object(), []

    def size() -> int:
        asked.append(1)
        return engines.AUTO_BYTES

    monkeypatch.setattr(engines, "_running", lambda: None)
    assert engines.chosen("auto", size) is None
    assert asked == []
    monkeypatch.setattr(engines, "_running", lambda: session)
    assert engines.chosen("auto", size) is session
    assert engines.chosen("auto", engines.AUTO_BYTES - 1) is None
    assert engines.chosen("auto") is None


def test_tasks_run_here_in_turn_and_tell_how_far_they_are() -> None:
    told: list[tuple[int, int | None]] = []
    run = engines.tasks_on(None, lambda what, done, total: told.append((done, total)))
    answers = run(3, lambda number: ({"number": number}, b"x" * number))
    assert answers == [({"number": 0}, b""), ({"number": 1}, b"x"), ({"number": 2}, b"xx")]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def _told(number: int) -> engines.Answer:
    if number == 3:
        raise NotFound("There is no file x.", next="Check the name.", file="x")
    return {"number": number}, b"x" * number


def test_an_engine_of_tasks_runs_pickled_work_and_errors_come_back_as_what_they_were() -> None:
    engine = PickledTasks(repeats=True)
    assert engines.chosen(engine) is engine
    assert engines.shuffles(engine, "jobs") is None
    told: list[tuple[int, int | None]] = []
    run = engines.tasks_on(engine, lambda what, done, total: told.append((done, total)))
    assert run(3, _told) == [({"number": 0}, b""), ({"number": 1}, b"x"), ({"number": 2}, b"xx")]
    assert told == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(NotFound) as caught:
        run(4, _told)
    assert caught.value.fields["file"] == "x"
    with pytest.raises((AttributeError, pickle.PicklingError)):
        run(1, lambda number: ({}, b""))


def test_rows_of_this_process_are_consumed_here_as_one_part() -> None:
    def work(batches: Any, part: int) -> engines.Answer:
        return {"rows": sum(batch.num_rows for batch in batches), "part": part}, b""

    frame = pa.table({"n": [1, 2, 3]})
    assert engines.on_frame(None, frame, work) == [({"rows": 3, "part": 0}, b"")]
    assert engines.on_frame(PickledTasks(), frame, work) == [({"rows": 3, "part": 0}, b"")]
