"""Maintenance in the background: what it refuses at once, and how it tells of a round that failed."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import InvalidInput


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake")


@pytest.mark.parametrize("every", [0, -1, float("nan"), float("inf"), "60", None, True])
def test_the_time_between_rounds_is_a_number_above_0(lake: quire.Lake, every: Any) -> None:
    with pytest.raises(InvalidInput, match="every.*number"):
        lake.maintain(every=every)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"optimize": {"target": 5}}, "maintain cannot pass 'target' to lake.optimize"),
        ({"cleanup": {"olderthan": 5}}, "maintain cannot pass 'olderthan' to lake.cleanup"),
        ({"cleanup": {"dry_run": True}}, "'dry_run'"),
        ({"optimize": "yes"}, "must be True or False or a dict"),
        ({"cleanup": 7}, "must be True or False or a dict"),
    ],
)
def test_options_that_no_round_could_use_are_refused_at_once(
    lake: quire.Lake, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        lake.maintain(**options)
    assert caught.value.next


def test_what_is_understood_runs(lake: quire.Lake) -> None:
    with lake.maintain(every=0.01, optimize={"target_rows": 100}, cleanup={"keep": 3}) as kept:
        wait(lambda: kept.done.rounds > 1)
    assert kept.done.failures == []


def test_a_failed_round_is_logged(lake: quire.Lake, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="quire"), lake.maintain(optimize={"tables": ["nope"]}) as kept:
        wait(lambda: kept.done.rounds > 0)
    [failure] = kept.done.failures
    assert failure.startswith("optimize: TableNotFound")
    [record] = [r for r in caplog.records if r.name == "quire"]
    assert record.levelno == logging.WARNING
    assert "optimize failed: There is no table 'nope'" in record.getMessage()
    assert lake.uri in record.getMessage()


def wait(until: Any) -> None:
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)
