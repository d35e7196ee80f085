"""Every route against every kind of token: the stated status, and nothing about what is not to be seen."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.web import Reply, Web

import quire
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig, Limits
from quire.server.request_log import RequestLog
from quire.server.route_table import ROUTES
from quire.server.routes import Route
from quire.server.serve import running

TOKENS = ("none", "wrong", "expired", "revoked", "no role", "other lake", "read", "write", "admin")
NAMES = {
    "lake": "demo", "table": "people", "commit": "1.0", "a": "0.0", "b": "1.0", "write": "x", "branch": "nobody",
    "tag": "nobody", "id": "1", "type": "Person", "property": "photo", "number": "1", "verb": "nothing", "job": "x",
    "query": "nobody", "merge": "x", "consumer": "x",
}  # fmt: skip


@dataclass
class Guarded:
    """A server with keys of every kind."""

    url: str
    tokens: dict[str, str]
    lines: list[str]

    def ask(self, token: str, route: Route, **names: str) -> Reply:
        path = re.sub(r"\{(\w+)\}", lambda m: {**NAMES, **names}[m[1]], route.path)
        if route.query is not None and "key" in route.query.__struct_fields__:
            path += "?key=1"
        value: Any = {} if route.method == "POST" else None
        return Web(self.url, token=self.tokens.get(token))(route.method, path, value, status=None)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    quire.create(folder / "lake", backfill=False).create_table("people", [{"id": 1, "name": "Ada"}], key="id")
    quire.create(folder / "secret", backfill=False).create_table("plans", [{"id": 1}])
    file = KeyFile(folder / "keys.json")
    tokens = {
        "wrong": "qk_" + "0" * 12 + "_" + "A" * 43,
        "expired": file.create("ada", ["admin"], days=1)[1],
        "read": file.create("rea", ["read"], lakes=["demo"])[1],
        "write": file.create("wri", ["write"], lakes=["demo"])[1],
        "admin": file.create("adm", ["admin"], lakes=["demo"])[1],
        "other lake": file.create("oth", ["admin"], lakes=["secret"])[1],
    }
    revoked, tokens["revoked"] = file.create("rev", ["admin"])
    file.revoke(revoked.id)
    bare, tokens["no role"] = file.create("bare", ["read"], lakes=["demo"])
    keys = [
        msgspec.structs.replace(
            key,
            roles=[] if key.id == bare.id else key.roles,
            expires=datetime.now(UTC) - timedelta(hours=1) if key.actor == "ada" else key.expires,
        )
        for key in file.read()
    ]
    file.path.write_bytes(msgspec.json.encode(keys))
    lakes = {"demo": LakeConfig(str(folder / "lake")), "secret": LakeConfig(str(folder / "secret"))}
    config = Config(lakes=lakes, port=0, auth=AuthConfig(keys=str(file.path)), limits=Limits(idle_seconds=5))
    lines: list[str] = []
    with running(config, RequestLog(lines.append)) as server:
        yield Guarded(server.url, tokens, lines)


def allowed(token: str, route: Route) -> int | None:
    """The status of a refusal; None where the token is good enough, whatever comes of the request then."""
    if route.access == "public":
        return None
    if token in ("none", "wrong", "expired", "revoked"):
        return 401
    if "{lake}" in route.path and token == "other lake":
        return 404
    if route.access == "any":
        return None
    levels = {"no role": 0, "read": 1, "write": 2, "admin": 3, "other lake": 3}
    return None if levels[token] >= {"read": 1, "write": 2, "admin": 3}[route.access] else 403


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_the_stated_status(guarded: Guarded, route: Route, token: str) -> None:
    reply = guarded.ask(token, route)
    expected = allowed(token, route)
    if expected is None:
        assert reply.status not in (401, 403), reply
    else:
        assert reply.status == expected, reply
        said = reply.body + json.dumps(reply.headers).encode()
        for word in (b"Ada", b"people", b"plans", b"lake/", str(guarded.tokens.get(token)).encode()):
            assert word not in said
    assert (reply.status == 401) == ("www-authenticate" in reply.headers)


def test_a_lake_that_is_not_for_an_actor_looks_like_none(guarded: Guarded) -> None:
    web = Web(guarded.url, token=guarded.tokens["read"])

    def told(lake: str) -> tuple[int, Any]:
        reply = web.get(f"/v1/lakes/{lake}/tables", status=None, x_request_id="same")
        return reply.status, json.loads(reply.body.replace(lake.encode(), b"?"))

    assert told("secret") == told("nowhere")
    assert web.get("/v1/lakes").json == {"lakes": [{"name": "demo", "read_only": False}]}


def test_no_token_is_in_the_log(guarded: Guarded) -> None:
    text = "".join(guarded.lines)
    assert '"actor":"rea"' in text
    for token in guarded.tokens.values():
        assert token not in text
        assert token[16:] not in text


def test_the_actor_is_the_author_whatever_the_client_says(guarded: Guarded) -> None:
    web = Web(guarded.url, token=guarded.tokens["admin"])
    done = web.commit({"op": "create_table", "table": f"t{time.time_ns()}", "columns": "n:int64"}).json
    shown = web.get(f"commits/{done['commit']}").json
    assert (shown["author"], shown["metadata"]["http.roles"]) == ("adm", "admin")
    assert web("POST", "commits", {"operations": [], "author": "root"}, status=400)
    web("POST", "branches", {"name": "by-actor"}, status=201)
    web("POST", "tags", {"name": "by-actor-tag"}, status=201)
    assert {b["author"] for b in web.get("branches").json["branches"] if b["name"] == "by-actor"} == {"adm"}
    assert [t["author"] for t in web.get("tags").json["tags"]] == ["adm"]


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer  ", "qk_x", "Bearer " + "x" * 20_000, "Bearer ö"])
def test_other_headers_let_nobody_in(guarded: Guarded, header: str) -> None:
    reply = Web(guarded.url).get("tables", status=None, authorization=header.encode().decode("latin-1"))
    assert reply.status == 401
