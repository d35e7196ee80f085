"""A store whose writes stay in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.errors import NotFound
from quire.store import AsideStore, Outcome, Store


def test_what_is_written_aside_is_seen_there_alone(tmp_path: Path) -> None:
    base = Store.open(tmp_path)
    for key in ("a/1", "a/2", "b"):
        base.put(key, b"base")
    aside = AsideStore(base)
    aside.put("a/1", b"mine")
    aside.put("a/3", b"new")
    aside.delete("a/2")
    assert (aside.get("a/1"), aside.get("b"), aside.get_range("a/3", 1, 2)) == (b"mine", b"base", b"ew")
    with pytest.raises(NotFound):
        aside.get("a/2")
    assert [entry.key for entry in aside.list("a")] == ["a/1", "a/3"]
    assert [entry.key for entry in aside.list("", after="a/1")] == ["a/3", "b"]
    assert aside.stat("a/2") is None
    assert aside.create("b", b"x", mine=lambda found: found == b"x").outcome is Outcome.CONFLICT
    assert aside.create("c", b"x", mine=lambda found: found == b"x").outcome is Outcome.COMMITTED
    assert aside.create("c", b"x", mine=lambda found: found == b"x").outcome is Outcome.COMMITTED
    below = aside.below("a")
    below.put("4", b"deep")
    assert below.get("4") == b"deep"
    assert {entry.key: base.get(entry.key) for entry in base.list("")} == dict.fromkeys(("a/1", "a/2", "b"), b"base")
