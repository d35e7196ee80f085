"""lance-spark on a real Spark: every statement that it has is a commit, and what it does past the namespace is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lance_clients.test_clients import PATIENT, run
from tests.namespace.conftest import ids, sound
from tests.namespace.serving import served

import quire


@pytest.fixture
def spark(environments: Path, program: Callable[[str, str], list[str]]) -> tuple[list[str], str]:
    if not (environments / "spark").exists():
        pytest.skip("make test-lance-spark makes the environment of Spark")
    return program("spark", "lance_spark_verbs.py"), str(environments / "spark" / "jars")


def test_every_verb_of_spark(lake: quire.Lake, spark: tuple[list[str], str]) -> None:
    command, jars = spark
    with served(lake, limits=PATIENT) as web:
        run(command, f"{web.url}/lance/demo", "main", jars)
    right(lake)
    _past_the_namespace(lake)


def test_a_branch_is_not_read_wrongly(lake: quire.Lake, spark: tuple[list[str], str]) -> None:
    """Numbers of versions on a branch are above 2^40, and lance-spark 0.4 has 32 bits for them: it finds nothing."""
    command, jars = spark
    lake.create_branch("trial")
    with served(lake, limits=PATIENT) as web:
        run(command, f"{web.url}/lance/demo/branch/trial", "branch", jars)
    assert lake.branch("trial").refresh() == lake.refresh() == "1.0"
    assert ids(lake) == [0, 1, 2, 3]


def right(lake: quire.Lake) -> None:
    lake.refresh()
    rows = lake["docs"].to_arrow().sort_by("id").to_pydict()
    texts = ["changed", "text 2", "merged 3", "merged 9", "new 10", "new 11"]
    assert (rows["id"], rows["text"]) == ([0, 2, 3, 9, 10, 11], texts)
    assert [ids(lake, name) for name in ("made", "written")] == [[1, 2], [5]]
    assert "gone" not in lake


def _past_the_namespace(lake: quire.Lake) -> None:
    """A table that was created without rows, and a compaction."""
    said = {commit.message for commit in lake.log()}
    assert {"create search.notes (Lance client)", "append search.notes (Lance client)"} <= said
    assert ids(lake, "search.notes") == [2]
    assert [found.table for found in lake.foreign()] == ["made"]
    lake.adopt("made")
    assert ids(lake, "made") == [1, 2]
    sound(lake)
