"""What an engine is, and who runs the tasks."""

from __future__ import annotations

from typing import Any

import pytest

from quire.errors import InvalidInput
from quire.lake import engines


def test_this_process_is_the_engine_unless_another_is_given() -> None:
    assert engines.chosen("local") is None
    assert engines.slots(None) == 1


@pytest.mark.parametrize("wrong", ["sparc", "", None, 3, object()])
def test_what_is_no_engine_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="no engine"):
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
    told: list[tuple[int, int]] = []
    run = engines.tasks_on(None, lambda done, total: told.append((done, total)))
    answers = run(3, lambda number: ({"number": number}, b"x" * number))
    assert answers == [({"number": 0}, b""), ({"number": 1}, b"x"), ({"number": 2}, b"xx")]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
