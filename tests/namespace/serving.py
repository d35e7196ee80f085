"""A server on a lake, for clients of a Lance namespace over HTTP."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests.server.web import Web

import quire
from quire.server.config import AuthConfig, Config, LakeConfig, Limits
from quire.server.request_log import RequestLog
from quire.server.serve import running


@contextlib.contextmanager
def served(lake: quire.Lake, **settings: Any) -> Iterator[Web]:
    """The lake as `demo`, in a thread of this process; a mistake of the server's fails the test."""
    lines: list[dict[str, Any]] = []
    keys = settings.pop("keys", None)
    limits = settings.pop("limits", Limits())
    named = {"demo": LakeConfig(str(lake.uri), **settings.pop("options", {}))}
    auth = None if keys is None else AuthConfig(keys=str(keys))
    config = Config(lakes=named, port=0, auth=auth, limits=limits, **settings)
    with running(config, RequestLog(lambda line: lines.append(json.loads(line)))) as server:
        yield Web(server.url)
    assert [line for line in lines if line["event"] == "failure"] == []
