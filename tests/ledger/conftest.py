from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from tests.ledger.building import open_log

from quire.store import Store
from quire.testing.ledger import Factory


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Mapping[str, str]]:
    """An empty root of each kind, with the options that open it."""
    name = uuid.uuid4().hex
    if request.param == "memory":
        return f"memory://{name}", {}
    if request.param == "local":
        return str(tmp_path / "lake"), {}
    s3 = request.getfixturevalue("s3")
    return s3.uri(name), s3.options


@pytest.fixture
def store(place: tuple[str, Mapping[str, str]]) -> Store:
    """An empty store of each kind."""
    return Store.open(*place)


@pytest.fixture
def memory() -> Store:
    """An empty store in memory, for laws that have nothing to do with the kind of store."""
    return Store.open(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def factory(place: tuple[str, Mapping[str, str]]) -> Factory:
    """Opens a log ledger on an empty root, again and again on the same one."""
    return partial(open_log, *place)
