"""Every route of the server, asked by each kind of client: the stated status, and no byte of what is denied.

A new route without a line in `MATRIX` fails. Routes of other specifications come from their own tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.web import Reply, Web

import quire
from quire.server.auth.keys import Key, KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig
from quire.server.delta.route_table import DELTA_ROUTES
from quire.server.lance.route_table import LANCE_ROUTES
from quire.server.request_log import RequestLog
from quire.server.route_table import ROUTES
from quire.server.routes import Route
from quire.server.serve import running
from quire.server.ui.ui_routes import ROUTES as PAGES

POLICY = """
permit(principal in Role::"analyst", action in [Action::"read", Action::"invoke"], resource in Lake::"lake")
unless {
    resource in Table::"salaries" || resource in Table::"node:Hidden" ||
    resource == Branch::"private" || resource == Column::"people/note"
};
forbid(principal in Role::"analyst", action == Action::"readRow", resource in Table::"people")
unless { resource.dept == "a" };
permit(principal in Role::"boss", action, resource);
"""
SECRETS = ("S-note", "dept-b", "999777555333", "salaries", "H-node", "Hidden", "private", "root's words")
SCHEMA = "node Person { name: String @key }\nnode Hidden { name: String @key }\n"


@dataclass(frozen=True)
class Ask:
    """How a route is asked, and the statuses that an analyst gets for what it may see and for what it may not."""

    path: str = ""
    """Values for what stands in the address, as `table={table}&x=1`; the rest after `?`."""
    body: Any = None
    raw: bytes | None = None
    ok: int = 200
    table: int = 404
    column: int = 400
    branch: int = 404
    after: bool = field(default=False)
    """Whether it needs an open transaction."""


SQL = {"query": "select {column} from {table}"}
WRITES = {"operations": [{"op": "append", "table": "{table}", "rows": [{"text": "x"}]}]}
MATRIX: dict[str, Ask] = {
    "health": Ask(), "ready": Ask(), "openapi": Ask(), "metrics": Ask(), "lakes": Ask(),
    "tables": Ask("?branch={branch}"),
    "table": Ask("table={table}?branch={branch}"),
    "rows": Ask("table={table}?columns={column}&branch={branch}", column=404),
    "find-rows": Ask("table={table}", {"columns": ["{column}"], "branch": "{branch}"}, column=404),
    "count": Ask("table={table}?filter={column}%20is%20not%20null&branch={branch}"),
    "history": Ask("table={table}?key=0&branch={branch}"),
    "sql": Ask("?branch={branch}", SQL, table=404),
    "commits": Ask("?branch={branch}"),
    "commit": Ask("commit=2.0?branch={branch}"),
    "diff": Ask("a=0.0&b=HEAD?tables={table}&rows=10&branch={branch}"),
    "diff-rows": Ask("a=0.0&b=HEAD&table={table}?what=added&branch={branch}"),
    "outcome": Ask("write=abc.1.def?branch={branch}"),
    "branches": Ask(), "tags": Ask(),
    "credentials": Ask("", {"tables": ["{table}"], "branch": "{branch}"}, ok=403),
    "changes": Ask("?since=beginning&branch={branch}"),
    "baseline": Ask("", {"branch": "{branch}"}),
    "commit-new": Ask("", {**WRITES, "branch": "{branch}"}, ok=403),
    "revert": Ask("commit=2.0", {"branch": "{branch}"}, ok=403),
    "cherry-pick": Ask("commit=2.0", {"branch": "{branch}"}, ok=403),
    "restore": Ask("", {"at": "1.0", "branch": "{branch}"}, ok=403),
    "fast-forward": Ask("branch={branch}", {"source": "trial"}, ok=403),
    "create-branch": Ask("", {"name": "mine", "source": "{branch}"}, ok=403),
    "delete-branch": Ask("branch=trial", ok=403),
    "create-tag": Ask("", {"name": "mine", "branch": "{branch}"}, ok=403),
    "delete-tag": Ask("tag=v1", ok=403),
    "begin": Ask("", {"branch": "{branch}"}, ok=201),
    "operations": Ask("id={tx}", WRITES, ok=403, after=True),
    "transaction-tables": Ask("id={tx}", after=True),
    "transaction-table": Ask("id={tx}&table={table}", after=True),
    "transaction-rows": Ask("id={tx}&table={table}?columns={column}", column=404, after=True),
    "transaction-sql": Ask("id={tx}", SQL, after=True),
    "transaction-commit": Ask("id={tx}", after=True),
    "discard": Ask("id={tx}", ok=204, after=True),
    "schema": Ask("?branch={branch}"),
    "plan-schema": Ask("", {"schema": "node Person { name: String @key }", "branch": "{branch}"}),
    "apply-schema": Ask("", {"schema": "node Other { name: String @key }", "branch": "{branch}"}, ok=403),
    "query": Ask("?branch={branch}", {"query": "query q() { match { $p: Person } return { $p.name } }"}),
    "explain": Ask("?branch={branch}", {"query": "query q() { match { $p: Person } return { $p.name } }"}),
    "lint": Ask("", {"queries": "query q() { match { $p: Person } return { $p.name } }"}),
    "store-queries": Ask("", {"queries": "query z() { match { $p: Person } return { $p.name } }"}, ok=403),
    "delete-query": Ask("query=known", ok=403),
    "queries": Ask("?branch={branch}"),
    "run-query": Ask("query=known?branch={branch}", {}),
    "mutate": Ask("", {"query": 'query m() { insert Person { name: "x" } }', "branch": "{branch}"}, ok=403),
    "load": Ask("?branch={branch}", raw=b'{"type": "Person", "data": {"name": "y"}}\n', ok=403),
    "blob": Ask("type=Person&id=Ada&property=name?branch={branch}", ok=400),
    "merge": Ask("", {"source": "{branch}", "into": "trial"}, ok=403, branch=403),
    "conflicts": Ask("merge=abc", ok=400),
    "requests": Ask("?state=all"),
    "open-request": Ask("", {"source": "trial", "title": "t", "into": "{branch}"}, ok=201),
    "request": Ask("number=1"),
    "review": Ask("number=1", {"verdict": "comment", "text": "t"}),
    "resolve-request": Ask("number=1", {"resolutions": []}, ok=403),
    "merge-request": Ask("number=1", {}, ok=403),
    "close-request": Ask("number=1", {}, ok=403),
    "reopen-request": Ask("number=1", {}, ok=403),
    "consumers": Ask(),
    "open-consumer": Ask("", {"name": "mine", "branch": "{branch}", "since": "beginning"}),
    "drop-consumer": Ask("consumer=nobody", ok=404),
    "consumer-changes": Ask("consumer=search?branch={branch}"),
    "consumer-commit": Ask("consumer=search", {"branch": "{branch}"}),
    "consumer-reset": Ask("consumer=search", {"since": "beginning", "branch": "{branch}"}),
    "status": Ask(ok=403),
    "maintain": Ask("verb=verify", {}, ok=403),
    "job": Ask("job=nothing", ok=404),
    "agents": Ask("", {}, ok=400),
}  # fmt: skip
OWN = {route.name: route for route in ROUTES if route.face is None}
ALIKE = {"table": ("salaries", "celeries"), "column": ("note", "nota"), "branch": ("private", "privata")}
SEEN = {"table": "people", "column": "name", "branch": "main"}


@dataclass(frozen=True)
class World:
    """A server on a lake with a policy, and a token for each kind of client."""

    url: str
    tokens: dict[str, str]
    lines: list[str]

    def as_(self, who: str) -> Web:
        return Web(self.url, token=self.tokens.get(who))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    lake = quire.create(folder / "lake", backfill=False, author="root")
    with lake.transaction("first") as tx:
        people = [{"id": i, "name": f"p{i}", "dept": ["a", "dept-b"][i % 2], "note": f"S-note-{i}"} for i in range(6)]
        tx.create_table("people", people, key="id")
        tx.create_table("logs", [{"text": "x"}])
    with lake.transaction("root's words on salaries") as tx:
        tx.create_table("salaries", [{"id": 1, "amount": 999777555333}], key="id")
    graph = quire.Graph(lake)
    graph.apply_schema(SCHEMA, message="graph")
    graph.load([{"type": "Person", "data": {"name": "Ada"}}, {"type": "Hidden", "data": {"name": "H-node"}}])
    graph.store("query known() { match { $p: Person } return { $p.name } }")
    lake.tag("v1")
    for name in ("trial", "private"):
        lake.create_branch(name)
    lake.tag("hidden-tag", at="branch:private")
    lake.requests.open("trial", "Try it")
    lake.requests.open("private", "root's words")
    lake.consumers.open("search", since="beginning")
    lake.policy.set(POLICY)
    lake.close()
    keys = KeyFile(folder / "keys.json")
    tokens = {
        "boss": keys.create("bob", ["admin"], policy_roles=["boss"])[1],
        "analyst": keys.create("ada", ["admin"], policy_roles=["analyst"])[1],
        "reader": keys.create("rita", ["read"], policy_roles=["analyst"])[1],
        "stranger": keys.create("sam", ["admin"])[1],
        "wrong": "qk_000000000000_" + "A" * 43,
    }
    late, tokens["expired"] = keys.create("eve", ["admin"], days=1)
    known = msgspec.json.decode(keys.path.read_bytes(), type=list[Key])
    past = datetime.now(UTC) - timedelta(days=1)
    known = [msgspec.structs.replace(k, expires=past) if k.id == late.id else k for k in known]
    keys.path.write_bytes(msgspec.json.encode(known))
    lines: list[str] = []
    auth = AuthConfig(keys=str(keys.path))
    config = Config(lakes={"demo": LakeConfig(str(folder / "lake"))}, port=0, auth=auth)
    with running(config, RequestLog(lines.append)) as server:
        yield World(server.url, tokens, lines)


def ask(world: World, who: str, route: Route, **values: str) -> Reply:
    """Ask a route as somebody, with values in the places that it has for them."""
    given, web = MATRIX[route.name], world.as_(who)
    there = {**SEEN, **values}
    if given.after and who not in ("nobody", "wrong", "expired", "reader"):
        there["tx"] = web("POST", "transactions", {}, status=None).json.get("id", "none")
    there.setdefault("tx", "none")
    path, _, query = _filled(given.path, there).partition("?")
    parts = {"lake": "demo", **dict(pair.split("=", 1) for pair in path.split("&") if pair)}
    address = re.sub(r"\{(\w+)\}", lambda m: parts[m[1]], route.path) + (f"?{query}" if query else "")
    body = given.raw if given.body is None else _filled(json.dumps(given.body), there).encode()
    reply = web(route.method, address, body=body, status=None)
    if given.after and route.name not in ("discard", "transaction-commit") and there["tx"] != "none":
        web("DELETE", f"transactions/{there['tx']}", status=None)
    return reply


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(table|column|branch|tx)\}", lambda m: values[m[1]], text)


def found_in(reply: Reply, *own: str) -> list[str]:
    """Which secrets an answer tells, beside what the client has said itself."""
    told = (reply.body + repr(reply.headers).encode()).decode("utf-8", "replace")
    for word in own:
        told = told.replace(word, "…")
    return [secret for secret in SECRETS if secret in told]


def shape(reply: Reply, word: str) -> Any:
    """An answer without what differs from request to request."""
    told = reply.body.decode().replace(word, "…")
    for part in (
        r'"(request_id|instance|id|address)": ?"[^"]*"',
        r"\(request \w+\)",
        r"character \d+",
        r"Candidate bindings: .*?\.\"",
    ):
        told = re.sub(part, "", told)
    return reply.status, told


def test_every_route_has_a_line_and_every_line_a_route() -> None:
    assert set(MATRIX) == set(OWN)


@pytest.mark.parametrize("name", MATRIX)
def test_nobody_is_let_in_without_a_valid_token(name: str, world: World) -> None:
    route = OWN[name]
    expected = 200 if route.access == "public" else 401
    for who in ("nobody", "wrong", "expired"):
        reply = ask(world, who, route)
        assert reply.status == expected
        assert found_in(reply) == [] or route.name == "openapi"


@pytest.mark.parametrize("name", [name for name, route in OWN.items() if route.access in ("write", "admin")])
def test_a_role_that_only_reads_writes_nothing(name: str, world: World) -> None:
    reply = ask(world, "reader", OWN[name])
    assert reply.status == 403
    assert found_in(reply) == []


@pytest.mark.parametrize("name", [name for name, route in OWN.items() if "{lake}" in route.path])
def test_who_is_in_no_rule_gets_nothing(name: str, world: World) -> None:
    reply = ask(world, "stranger", OWN[name])
    assert reply.status >= 400 or found_in(reply) == []
    assert found_in(reply) == []
    assert b"p0" not in reply.body


@pytest.mark.parametrize("name", MATRIX)
def test_rows_and_columns_that_are_hidden_are_in_no_answer(name: str, world: World) -> None:
    reply = ask(world, "analyst", OWN[name])
    assert reply.status == MATRIX[name].ok, reply.body[:500]
    assert name == "openapi" or found_in(reply) == []


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (name, what)
        for name, given in MATRIX.items()
        for what in ALIKE
        if f"{{{what}}}" in given.path + json.dumps(given.body)
    ],
)
def test_what_is_denied_looks_like_what_is_not_there(name: str, what: str, world: World) -> None:
    replies = []
    for word in ALIKE[what]:
        reply = ask(world, "analyst", OWN[name], **{what: word})
        assert reply.status == getattr(MATRIX[name], what), reply.body[:500]
        assert found_in(reply, word) == []
        replies.append(shape(reply, word))
    assert replies[0] == replies[1]
    assert what != "column" or b"note" not in reply.body, "what is like it is not suggested"


@pytest.mark.parametrize("route", [*LANCE_ROUTES, *DELTA_ROUTES, *PAGES], ids=lambda r: f"{r.method} {r.path}")
def test_pages_and_other_specifications_tell_nothing_either(route: Route, world: World) -> None:
    values = {"lake": "demo", "commit": "2.0", "branch": "main", "txn": "none"}
    address = re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], "salaries"), route.path)
    seen_in_part = re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], "people"), route.path)
    reply = world.as_("analyst")(route.method, seen_in_part, body=b"{}", status=None)
    assert reply.status < 500 or reply.status == 501, reply
    assert route.access == "public" or found_in(reply) == []
    for who in ("nobody", "wrong", "expired"):
        reply = world.as_(who)(route.method, address, body=b"{}", status=None)
        assert route.access == "public" or reply.status in (401, 403)
        assert found_in(reply, "salaries") == []
    denied, unknown = (
        world.as_("analyst")(route.method, address.replace("salaries", name), body=b"{}", status=None)
        for name in ("salaries", "celeries")
    )
    assert denied.status < 500 or denied.status == 501, denied
    assert route.access == "public" or found_in(denied, "salaries") == []
    if route.face is not None and "salaries" in address:
        assert found_in(unknown) == []
        assert shape(denied, "salaries") == shape(unknown, "celeries")


def test_logs_and_metrics_name_nothing_that_is_denied(world: World) -> None:
    for name, route in OWN.items():
        if name in ("rows", "sql", "table", "history"):
            ask(world, "analyst", route, table="salaries")
    told = "\n".join(line for line in world.lines if '"actor":"ada"' in line)
    told += world.as_("boss").get("/metrics").body.decode()
    assert told.count("ada") > 3
    assert [secret for secret in SECRETS if secret in told] == []


def test_a_boss_sees_it_all(world: World) -> None:
    names = {table["name"] for table in world.as_("boss").get("tables").json["tables"]}
    assert {"people", "salaries", "logs", "node:Hidden"} <= names
    assert world.as_("boss").get("tables/people/count").json["count"] == 6
    assert world.as_("analyst").get("tables/people/count").json["count"] == 3
