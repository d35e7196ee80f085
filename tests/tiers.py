"""Chooses the tests of a tier, and in which order they run on how many workers. See `tests/budget.py`."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from tests import durations
from tests.budget import FULL, SEED, budget

SPARK = "spark"
EXAMPLES = budget(30, full=100)
"""How far a search goes that does not say it."""
SPLIT = 40.0
"""Seconds from which the functions of a file may run on different workers."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before Hypothesis looks at its seed, and before tests that do not say how far they search are loaded."""
    if config.getoption("--hypothesis-seed", default=None) is None:
        config.option.hypothesis_seed = str(SEED)
    settings.register_profile("tier", settings.get_profile("default"), max_examples=EXAMPLES)
    settings.load_profile("tier")


def pytest_report_header() -> str:
    if FULL:
        return f"tier: everything, seed {SEED}"
    return f"tier: default, seed {SEED} (QUIRE_TESTS_SEED={SEED} repeats it, QUIRE_TESTS=full runs everything)"


# -- what runs --------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the default tier does not run, unless tests are asked for by name; Spark's come first.

    Its JVM is started by a fork, which fails in a process whose address space has outgrown the machine, and that is
    where some of the tests with hostile input leave it.
    """
    nameless = [i.nodeid for i in items if SPARK in getattr(i, "fixturenames", ()) and group(i.nodeid) != SPARK]
    if nameless:
        raise pytest.UsageError(f"a test on Spark has 'spark' in its path or name: {', '.join(nameless)}")
    asked = any("::" in str(argument) for argument in config.args) or "full" in config.getoption("markexpr")
    if not FULL and not asked:
        kept = chosen(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    items.sort(key=lambda item: group(item.nodeid) != SPARK)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn(group(item.nodeid)))


def chosen(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The tests of the default tier."""
    kept: set[pytest.Item] = set()
    sampled: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") is not None:
            continue
        if item.get_closest_marker("sampled") is None:
            kept.add(item)
        else:
            sampled[function(item.nodeid)].append(item)
    for name, several in sampled.items():
        marker: Any = several[0].get_closest_marker("sampled")
        kept.update(cover(several, *marker.args, seed=f"{SEED} {name}"))
    return kept


def cover(items: Sequence[pytest.Item], count: int | None = None, *, seed: str) -> list[pytest.Item]:
    """So many sets of parameters, or as many as take every value of every parameter once; as different as can be."""
    left = list(items)
    random.Random(seed).shuffle(left)
    taken: list[pytest.Item] = []
    missing = {value for item in items for value in values(item)}
    while left and (missing if count is None else len(taken) < count):
        best = max(left, key=lambda item: len(values(item) & missing))
        left.remove(best)
        taken.append(best)
        missing -= values(best)
    return taken


def values(item: pytest.Item) -> set[tuple[str, int]]:
    """The parameters of a test with the values that they have; all workers share them alike."""
    params: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    return {(name, id(value)) for name, value in params.items()}


# -- where and when it runs -------------------------------------------------------------------------------------------


def function(nodeid: str) -> str:
    """The test function, without its parameters."""
    return nodeid.partition("[")[0]


def group(nodeid: str) -> str:
    """What runs on one worker: all of Spark, a file, or a function of a long file."""
    if SPARK in nodeid:
        return SPARK
    file = nodeid.partition("::")[0]
    return function(nodeid) if durations.seconds(file) > SPLIT else file


def turn(name: str) -> tuple[bool, float]:
    """Groups in the order in which workers take them: Spark, then the longest."""
    return name != SPARK, -durations.seconds(name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One Spark for the whole run, files as a whole so that what they prepare is prepared once, the longest first."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    config.option.loadscopereorder = False  # the tests are in order
    return Groups(config, log)
