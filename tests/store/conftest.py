from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.faulty import FaultyS3

from quire.store import Store, conditional_put


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    name = uuid.uuid4().hex
    if request.param == "local":
        return Store.open(tmp_path / "lake")
    if request.param == "memory":
        return Store.open(f"memory://{name}")
    s3 = request.getfixturevalue("s3")
    return Store.open(s3.uri(name), s3.options)


@pytest.fixture
def faulty() -> Iterator[FaultyS3]:
    """A server whose answers can be made to go wrong."""
    with FaultyS3() as server:
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repetitions follow at once, for tests in which all of them fail."""
    monkeypatch.setattr(conditional_put, "_FIRST_PAUSE", 0.001)
