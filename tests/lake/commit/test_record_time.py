"""Clocks that are wrong: they do not drag a lake's time along, and a lake that was dragged still answers by time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.laboratory.hostile import forge

import quire
from quire.errors import ClockSkew
from quire.store import clock

YEAR = timedelta(days=365)


@contextmanager
def shifted(by: timedelta) -> Iterator[None]:
    """A machine whose clock is wrong by so much."""

    class Wrong(clock.World):
        def now(self) -> datetime:
            return datetime.now(UTC) + by

    with clock.using(Wrong()):
        yield


def append(lake: quire.Lake, n: int) -> datetime:
    with lake.transaction(f"c{n}") as tx:
        tx["t"].append([{"id": n}])
    return lake.log()[0].time


def rows_at(lake: quire.Lake, when: datetime) -> int:
    return lake.at(time=when)["t"].count()


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 0}])
    return lake


def dragged(lake: quire.Lake) -> quire.Lake:
    """The lake with four more commits, as an earlier version left them after one whose clock was a year ahead."""
    for n in range(1, 5):
        append(lake, n)
    lake.close()
    for slot in range(3, 6):
        [path] = Path(lake.uri).glob(f"_quire/log/*/{slot:020d}")
        time = (datetime.now(UTC) + YEAR).replace(hour=0, minute=0, second=0, microsecond=slot).isoformat()
        path.write_bytes(forge(path.read_bytes(), {"time": time, "commits.0.time": time}))
    return quire.open(lake.uri, backfill=False)


# -- a clock that runs ahead -------------------------------------------------------------------------------------------


def test_a_writer_a_year_ahead_of_the_disk_is_refused_before_it_publishes(lake: quire.Lake) -> None:
    with shifted(YEAR):
        ahead = quire.open(lake.uri, backfill=False)
        for write in (lambda: append(ahead, 1), lambda: ahead.tag("v1"), lambda: ahead.create_branch("b"), ahead.claim):
            with pytest.raises(ClockSkew, match="Nothing was committed") as caught:
                write()
            error = caught.value
            assert YEAR - timedelta(hours=1) < error.clock - error.store < YEAR + timedelta(hours=1)
    assert quire.open(lake.uri).head == "1.0"
    append(lake, 2)
    assert rows_at(lake, datetime.now(UTC)) == 2


def test_a_clock_that_is_set_right_is_believed_again(lake: quire.Lake) -> None:
    with shifted(YEAR), pytest.raises(ClockSkew):
        append(lake, 1)
    assert append(lake, 2) < datetime.now(UTC) + timedelta(minutes=1)


@pytest.mark.parametrize("by", [timedelta(minutes=50), -timedelta(minutes=50), -YEAR])
def test_a_clock_that_is_a_little_off_or_late_writes_and_times_rise(lake: quire.Lake, by: timedelta) -> None:
    first = append(lake, 1)
    with shifted(by):
        second = append(lake, 2)
    third = append(lake, 3)
    assert first < second < third


@pytest.mark.parametrize("year", [1950, 9500])
def test_a_clock_of_a_strange_year_is_refused(year: int) -> None:
    lake = quire.create(f"memory://{uuid.uuid4().hex}")
    lake.create_table("t", [{"id": 0}])
    with shifted(datetime(year, 1, 1, tzinfo=UTC) - datetime.now(UTC)):
        with pytest.raises(ClockSkew):
            append(lake, 1)
        with pytest.raises(ClockSkew):
            quire.create(f"memory://{uuid.uuid4().hex}")
        with pytest.raises(ClockSkew):
            lake.tag("v")
    assert append(lake, 1)


def test_the_next_right_clock_takes_the_time_back() -> None:
    """In memory nothing tells a writer what time it is for the store until somebody asks."""
    lake = quire.create(f"memory://{uuid.uuid4().hex}")
    lake.create_table("t", [{"id": 0}])
    before = append(lake, 1)
    with shifted(YEAR):
        wrong = append(quire.open(lake.uri), 2)
    assert wrong > before + YEAR - timedelta(days=1)
    right = [append(lake, n) for n in (3, 4)]
    assert before < right[0] < right[1] < datetime.now(UTC) + timedelta(minutes=1)
    for reader in (lake, quire.open(lake.uri)):
        assert rows_at(reader, datetime.now(UTC)) == 5
        assert rows_at(reader, right[1]) == 5
        assert rows_at(reader, right[0]) == 4
        assert rows_at(reader, right[0] - timedelta(microseconds=1)) == 2
        assert rows_at(reader, before) == 2
        assert reader.verify().ok


# -- lakes that were dragged along -------------------------------------------------------------------------------------


def test_a_lake_that_was_dragged_ahead_answers_by_the_times_of_the_store(lake: quire.Lake) -> None:
    lake = dragged(lake)
    now = datetime.now(UTC)
    assert lake.log()[0].time > now + YEAR - timedelta(days=2)
    assert rows_at(lake, now) == 5
    assert rows_at(lake, lake.show("2.0").time) == 2
    assert rows_at(lake, now + 2 * YEAR) == 5


def test_the_next_commit_brings_a_dragged_lake_back(lake: quire.Lake) -> None:
    lake = dragged(lake)
    time = append(lake, 5)
    assert time < datetime.now(UTC) + timedelta(minutes=1)
    later = append(lake, 6)
    for n in range(7, 45):  # beyond a checkpoint
        with lake.transaction(f"c{n}", token=quire.StreamToken("s", n)):
            pass
    lake.close()
    for reader in (lake, quire.open(lake.uri, backfill=False)):
        assert rows_at(reader, datetime.now(UTC)) == 7
        assert rows_at(reader, time) == 6
        assert rows_at(reader, later) == 7
        assert rows_at(reader, reader.show("2.0").time) == 2
        assert reader.verify().ok
