"""One browser for the whole run, and servers on fresh lakes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ui import browser as browsers
from tests.ui import lakes
from tests.ui.browser import Tab

import quire
from quire.server.config import AuthConfig, Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running

Opened = Callable[..., AbstractContextManager[Tab]]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser, started once."""
    found = browsers.chromium()
    if found is None:
        pytest.skip("there is no Chromium: `make test-ui` installs Debian's")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=browsers.ARGUMENTS)
        yield started
        started.close()


@contextmanager
def serving(**lakes_by_name: Any) -> Iterator[str]:
    """A server on some lakes. Whatever it fails at fails the test."""
    keys = lakes_by_name.pop("keys", None)
    how = {name: lakes_by_name.pop(name) for name in ("private", "read_only") if name in lakes_by_name}
    failures: list[str] = []
    config = Config(
        lakes={name: LakeConfig(str(uri)) for name, uri in lakes_by_name.items()},
        port=0,
        auth=None if keys is None else AuthConfig(keys=str(keys)),
        **how,
    )
    log = RequestLog(lambda line: failures.append(line) if json.loads(line)["event"] == "failure" else None)
    with running(config, log) as server:
        yield server.url
    assert failures == []


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    """A lake that tests of this module only look at."""
    return lakes.lake(tmp_path_factory.mktemp("pages") / "demo")


@pytest.fixture(scope="module")
def served(demo: quire.Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on that lake and on one without tables."""
    bare: Path = tmp_path_factory.mktemp("pages") / "bare"
    quire.create(bare, author="ada")
    with serving(demo=demo.uri, bare=bare) as url:
        yield url


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[quire.Lake, str]]:
    """A lake that a test may change, and a server on it."""
    made = lakes.lake(tmp_path / "demo")
    with serving(demo=made.uri) as url:
        yield made, url


@pytest.fixture
def look(chromium: Any) -> Opened:
    """Open a tab on a server."""

    def start(url: str, **how: Any) -> AbstractContextManager[Tab]:
        return browsers.opened(chromium, url, **how)

    return start
