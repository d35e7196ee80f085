"""A server on a lake, in a thread of the test's process, with its answers held against their types."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.server.web import Web

import quire
from quire.server.config import Config, LakeConfig, Limits
from quire.server.request_log import RequestLog
from quire.server.serve import running

Serve = Callable[..., AbstractContextManager[Web]]


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    """What the server logged."""
    return []


@pytest.fixture
def serve(lines: list[dict[str, Any]]) -> Serve:
    """Serve lakes, by name, in a block."""

    @contextlib.contextmanager
    def start(limits: Limits | None = None, read_only: bool = False, **lakes: Path | str) -> Iterator[Web]:
        named = {name: LakeConfig(str(uri)) for name, uri in lakes.items()}
        config = Config(lakes=named, port=0, read_only=read_only, limits=limits or Limits())
        log = RequestLog(lambda line: lines.append(json.loads(line)))
        with running(config, log, check_answers=True) as server:
            yield Web(server.url)
        assert [line for line in lines if line["event"] == "failure"] == []

    return start


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    """Two tables, three commits, a branch and a tag."""
    lake = quire.create(tmp_path / "lake", backfill=False, author="ada")
    with lake.transaction("first") as tx:
        tx.create_table("people", [{"id": i, "name": f"p{i}", "age": 20 + i} for i in range(10)], key="id")
        tx.create_table("notes", [{"text": "one"}])
    lake.tag("v1", message="the first")
    with lake.transaction("more") as tx:
        tx["people"].upsert([{"id": 3, "name": "Carl", "age": 3}, {"id": 10, "name": "p10", "age": 30}])
    lake.create_branch("trial")
    return lake


@pytest.fixture
def web(lake: quire.Lake, serve: Serve) -> Iterator[Web]:
    """A server on that lake, called demo."""
    with serve(demo=lake.uri) as found:
        yield found
