"""The same loads in this process and on Spark: the same tables row by row, receipts, errors, violations and rejects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.graph.load.cases import CASES, assert_alike
from tests.graph.load.twice import prepared

from quire.graph.load.staged.staging import Staged

SHUFFLED = [
    *("append that breaks rules together", "append without keys that clash", "merge of rows with some properties"),
    *("merge without new rows that lack what is required", "merge by what is unique without clashes"),
    *("merge without what breaks rules together", "merge of some properties without what breaks rules together"),
    "overwrite that leaves edges behind",
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("graph") / "base")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "few"), [*((name, Staged.few) for name in CASES), *((name, 0) for name in SHUFFLED)])
def test_both_engines_do_and_tell_the_same(
    base: Path, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, name: str, few: int
) -> None:
    monkeypatch.setattr(Staged, "few", few)
    assert_alike(base, tmp_path, CASES[name], spark)
