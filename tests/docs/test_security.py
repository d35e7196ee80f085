"""Every promise of SECURITY.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
PROMISES = re.split(r"\n(?=\*\*)", PAGE.split("## Promised\n")[1].split("## Not promised\n")[0].strip())


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text[2:].split("**")[0])
def test_a_promise_names_tests_that_exist(promise: str) -> None:
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`", promise)
    assert named
    for path, test in named:
        assert (ROOT / path).exists(), path
        if test:
            assert re.search(rf"^def {test}\(", (ROOT / path).read_text("utf-8"), flags=re.MULTILINE), f"{path}::{test}"
