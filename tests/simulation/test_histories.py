"""A few hundred simulated histories; `make histories` runs ten thousand."""

import pytest
from tests.budget import FULL, SEED, budget

from quire.testing.simulation.__main__ import main
from quire.testing.simulation.campaign import Campaign, campaign
from quire.testing.simulation.history import Result, run

FIRST = 10_001 if FULL else 1_000 * SEED
COUNT, PARTS = budget(20, full=240), budget(1, full=6)
HISTORIES = str(budget(3, full=40))


@pytest.mark.parametrize("part", range(PARTS))
def test_histories_hold(part: int) -> None:
    step = COUNT // PARTS
    total = campaign(range(FIRST + part * step, FIRST + (part + 1) * step), stop_at=1)
    for failure in total.failures:
        trace = "\n".join(run(failure.seed, keep_trace=True).lines[-150:])
        pytest.fail(f"seed {failure.seed}: {failure.violations}\n{trace}")
    assert total.histories == step
    assert total.weak == []
    assert total.counts["fault"] >= step
    assert total.counts["operation"] >= 30 * step
    assert total.counts["writer"] >= 3 * step
    assert total.counts["group"] >= 0.3 * step
    assert total.counts["grouped commit"] >= 0.8 * step
    assert total.counts["group of three or more"] >= 0.05 * step
    assert total.counts["fused"] >= 0.3 * step
    assert total.counts["state inside a group read"] >= 0.05 * step


def test_every_history_has_its_writers_operations_and_a_fault() -> None:
    for seed in range(FIRST, FIRST + budget(3, full=40)):
        counts = run(seed).counts
        assert counts["writer"] >= 3
        assert counts["operation"] >= 30
        assert counts["fault"] >= 1


def test_a_run_in_which_nothing_happened_is_too_weak() -> None:
    total = Campaign()
    total.add(Result(1, "", [], {"commit": 5, "rebase": 2}))
    assert total.weak == ["unknown outcome", "cleanup", "group", "fused"]


def test_the_command_runs_histories_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--histories", HISTORIES, "--seed", "1", "--processes", "1"]) == 0
    assert f"{HISTORIES} histories" in capsys.readouterr().out
    assert main(["--one", "3", "--trace"]) == 0
    out = capsys.readouterr().out
    assert "seed 3" in out
    assert "_quire/log/" in out


def test_a_failure_prints_its_seed_and_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["--histories", HISTORIES, "--processes", "1", "--bug", "tests.laboratory.planted_bugs:slots-deleted"])
        == 1
    )
    out = capsys.readouterr().out
    assert "was deleted" in out
    assert "replay: --one" in out
