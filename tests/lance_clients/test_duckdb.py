"""DuckDB's Lance extension reads through the namespace, and writes past it: which is seen, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.lance_clients.test_clients import PATIENT, run
from tests.namespace.conftest import ids, opened, sound
from tests.namespace.serving import served

import quire
from quire.lance import Namespace


@pytest.fixture
def noted(lake: quire.Lake) -> quire.Lake:
    lake.create_table("search.notes", [{"id": 1}])
    return lake


@pytest.mark.parametrize("view", ["", "/at/2.0", "/branch/trial"])
def test_it_reads(noted: quire.Lake, program: Callable[[str, str], list[str]], view: str) -> None:
    noted.create_branch("trial")
    if view:
        opened(Namespace(noted)).delete("true")
    with served(noted, limits=PATIENT) as web:
        run(program("duckdb", "duckdb_reads.py"), f"{web.url}/lance/demo{view}", "read")


def test_what_it_writes_past_the_namespace_is_seen(noted: quire.Lake, program: Callable[[str, str], list[str]]) -> None:
    with served(noted, limits=PATIENT) as web:
        run(program("duckdb", "duckdb_reads.py"), f"{web.url}/lance/demo", "write")
    noted.refresh()
    assert ids(noted) == [0, 1, 2, 3]
    assert [found.table for found in noted.foreign()] == ["docs"]
    noted.adopt("docs")
    assert ids(noted) == [0, 1, 2, 3, 10]
    opened(Namespace(noted)).delete("id = 10")
    assert ids(noted) == [0, 1, 2, 3]
    sound(noted)
