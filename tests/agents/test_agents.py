"""Agents, driven by the official client: over stdin and stdout, over HTTP, and in one process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import quire
from quire.agents.bounds import Bounds, fitted
from quire.agents.stdio import workspace
from quire.agents.tools import build
from quire.agents.workspace import own_branch
from quire.errors import InvalidInput
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running

mcp = pytest.importorskip("mcp")
T = TypeVar("T")

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
FRIENDS = """query friends($name: String, $limit: I32?) @description("Whom somebody knows") {
  match { $p: Person { name: $name }  $p knows $f }
  return { $f.name as name }
}
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
"""
READ = {
    "describe", "query", "sql", "lint", "search", "neighbours", "history", "diff", "changes", "log", "requests",
    "query_friends",
}  # fmt: skip
WRITE = {"begin", "mutate", "load", "preview_merge", "resolve", "propose", "query_add"}


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "lake", backfill=False, author="ada")
    graph = quire.Graph(lake)
    graph.apply_schema(SCHEMA)
    people = [{"type": "Person", "data": {"name": name, "age": 30}} for name in ("Ada", "Bo")]
    graph.load([*people, {"edge": "Knows", "from": "Ada", "to": "Bo"}])
    graph.store(FRIENDS)
    lake.create_table("notes", [{"id": i, "text": f"note {i}"} for i in range(500)], key="id")
    lake.create_branch("other")
    return lake


class Agent:
    """One client in a session: answers as values, errors as theirs."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def __call__(self, tool: str, **given: Any) -> Any:
        result = await self.client.call_tool(tool, given)
        said = result.content[0].text
        assert not result.is_error, said
        found = json.loads(said)
        assert result.structured_content == found  # the client has held it against the schema that the tool names
        return found

    async def fails(self, tool: str, **given: Any) -> dict[str, Any]:
        """The error of a call, as an agent sees it."""
        result = await self.client.call_tool(tool, given)
        assert result.is_error, result
        said = result.content[0].text
        return json.loads(said[said.index("{") :]) if "{" in said else {"kind": "arguments", "message": said}

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


def talk(server: Any, talks: Callable[[Agent], Awaitable[T]]) -> T:
    """Let an agent talk to a server."""

    async def run() -> T:
        async with mcp.Client(server) as client:
            return await talks(Agent(client))

    return asyncio.run(asyncio.wait_for(run(), 60))


def here(lake: quire.Lake, **how: Any) -> Any:
    """The tools in this process."""
    return build(workspace(lake, "demo", **how))


# -- what there is -----------------------------------------------------------------------------------------------------


def test_it_reads_only_unless_it_is_told(lake: quire.Lake) -> None:
    async def talks(agent: Agent) -> None:
        tools = await agent.tools()
        assert set(tools) == READ
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert (await agent("describe"))["writes_to"] is None

    talk(here(lake), talks)


def test_writing_tools_and_stored_queries_are_typed(lake: quire.Lake) -> None:
    async def talks(agent: Agent) -> None:
        tools = await agent.tools()
        assert set(tools) == READ | WRITE
        friends = tools["query_friends"]
        assert friends.description == "Whom somebody knows"
        assert friends.input_schema["required"] == ["name"]
        assert friends.input_schema["properties"]["name"]["type"] == "string"
        assert (await agent("query_friends", name="Ada"))["rows"] == [{"name": "Bo"}]
        assert not tools["mutate"].annotations.read_only_hint
        assert all(tool.description for tool in tools.values())
        for name in ("sql", "query", "search", "query_friends"):
            assert set(tools[name].output_schema["required"]) == {"commit", "branch", "columns", "rows", "truncated"}
        assert all("commit" in tool.output_schema["required"] for tool in tools.values())
        assert not any(word in str(tool.input_schema) for tool in tools.values() for word in ("path", "uri", "branch"))

    talk(here(lake, write=True, branch="agents/a"), talks)


def test_reading(lake: quire.Lake) -> None:
    async def talks(agent: Agent) -> None:
        told = await agent("describe")
        assert {t["name"] for t in told["tables"]} >= {"notes", "node:Person"}
        assert told["stored_queries"] == ["add", "friends"]
        one = await agent("describe", name="Person")
        assert (one["rows"], len(one["sample"])) == (2, 2)
        assert "location" not in one
        assert (await agent("sql", query="select count(*) as n from notes where id > ?", params=[489]))["rows"] == [
            {"n": 10}
        ]
        many = await agent("sql", query="select * from notes order by id")
        assert (len(many["rows"]), many["truncated"], many["commit"]) == (100, True, lake.head)
        asked = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"
        assert (await agent("query", query=asked, params={"n": "Ada"}))["rows"] == [{"age": 30}]
        assert (await agent("query", query="friends", params={"name": "Ada"}))["rows"] == [{"name": "Bo"}]
        assert (await agent("neighbours", type="Person", key="Ada"))["neighbours"][0]["node"]["name"] == "Bo"
        assert [v["change"] for v in (await agent("history", name="notes", key=3))["versions"]] == ["insert"]
        assert (await agent("diff", a="2.0"))["tables"][0]["table"] == "graph:stored"
        page = await agent("changes", limit=2)
        assert len(page["changes"]) == 2
        assert len((await agent("changes", since=page["cursor"]))["changes"]) == 2
        assert (await agent("log", limit=1))["commits"][0]["author"] == "ada"
        assert (await agent("requests"))["requests"] == []

    talk(here(lake), talks)


def test_errors_say_what_to_do(lake: quire.Lake) -> None:
    async def talks(agent: Agent) -> None:
        wrong = await agent.fails("query", query="query q() {\n  match { $p: Persn }\n  return { $p.name } }")
        assert (wrong["kind"], wrong["line"], wrong["column"]) == ("invalid-query", 2, 11)
        assert "Person" in wrong["next"]
        [finding] = (await agent("lint", queries="query q() { match { $p: Persn } return { $p.name } }"))["findings"]
        assert (finding["line"], finding["column"]) == (1, 21)
        assert "expected" in (await agent.fails("query", query="query q( { }"))["message"]
        assert (await agent.fails("sql", query="drop table notes"))["kind"] == "invalid-expression"
        assert "notes" in (await agent.fails("describe", name="nots"))["next"]
        missing = await agent.fails("query", query="frends")
        assert missing["next"]

    talk(here(lake), talks)


def test_resources_and_prompts(lake: quire.Lake) -> None:
    async def talks(agent: Agent) -> None:
        client = agent.client
        assert [r.uri for r in (await client.list_resources()).resources] == ["quire://demo/schema"]
        templates = {t.uri_template for t in (await client.list_resource_templates()).resource_templates}
        assert templates == {f"quire://demo/{x}" for x in ("tables/{table}", "commits/{commit}", "requests/{number}")}
        schema = json.loads((await client.read_resource("quire://demo/schema")).contents[0].text)
        assert "node Person" in schema["schema"]
        commit = json.loads((await client.read_resource("quire://demo/commits/1.0")).contents[0].text)
        assert commit["id"] == "1.0"
        names = [p.name for p in (await client.list_prompts()).prompts]
        assert names == ["explore", "write-a-query", "review", "resolve"]
        assert "data" in (await client.get_prompt("review", {"task": "request 1"})).messages[0].content.text

    talk(here(lake), talks)


# -- writing -----------------------------------------------------------------------------------------------------------


async def work(agent: Agent, name: str = "Cy") -> dict[str, Any]:
    """What an agent does from its beginning to its proposal."""
    assert (await agent.fails("mutate", query='query m() { delete Person where name = "Bo" }'))["kind"] == "refused"
    await agent("begin")
    done = await agent("query_add", name=name, age=3)
    assert done["inserted"] == {"Person": 1}
    token = quire.token()
    for again in (False, True):
        loaded = await agent("load", rows=[{"name": f"{name}2"}], type="Person", token=token)
        assert loaded["repeated"] is again
    put = await agent("load", rows=[{"id": 1, "text": "changed"}], table="notes", mode="merge")
    assert put["updated"] == 1
    bad = await agent.fails("load", rows=[{"edge": "Knows", "from": "Ada", "to": "Nobody"}])
    assert bad["violations"][0]["rule"]
    assert (await agent("preview_merge"))["outcome"] in ("fast-forward", "merged")
    return dict(await agent("propose", title="More people", text="because"))


def test_an_agent_proposes_and_a_person_merges(lake: quire.Lake) -> None:
    found = talk(here(lake, write=True, branch="agents/a"), work)
    assert (found["request"], found["open_conflicts"]) == (1, 0)
    assert quire.Graph(lake).node("Person", "Cy") is None
    [request] = lake.requests.list()
    assert (request.source, request.target, request.text) == ("agents/a", "main", "because")
    lake.requests.review(1, "approve")
    lake.requests.merge(1)
    assert quire.Graph(lake).node("Person", "Cy")["age"] == 3
    [entry] = [c for c in lake.branch("agents/a").log() if c.message == "mutate" or c.message.startswith("load")][:1]
    assert entry.metadata["via"] == "mcp"


def test_conflicts_are_resolved_in_the_agents_own_request_alone(lake: quire.Lake) -> None:
    server = here(lake, write=True, branch="agents/a")

    async def first(agent: Agent) -> int:
        await agent("begin")
        await agent("load", rows=[{"id": 1, "text": "mine"}], table="notes", mode="merge")
        return int((await agent("propose", title="x"))["request"])

    number = talk(server, first)
    with lake.transaction() as tx:
        tx["notes"].update(values={"text": "main"}, where="id = 1")
    other = lake.requests.open("other", "not the agent's")

    async def second(agent: Agent) -> None:
        [conflict] = (await agent("preview_merge"))["conflicts"]
        assert (conflict["ours"]["text"], conflict["theirs"]["text"]) == ("main", "mine")
        decided = [{**conflict, "resolution": "theirs"}]
        assert (await agent.fails("resolve", request=other.number, resolutions=decided))["kind"] == "refused"
        assert (await agent("resolve", request=number, resolutions=decided))["resolutions"] == 1
        assert "merge" not in await agent.tools()

    talk(server, second)
    lake.requests.merge(number)
    assert lake["notes"].scan(filter="id = 1").to_pylist()[0]["text"] == "mine"


HOSTILE = [
    "main", "other", "agents/b", "../main", "agents/../main", "/etc/passwd", "file:///etc/passwd", "s3://bucket/x",
    "https://example.org/x", "a.gq", "x.pg", "branch:other", "tag:v1", "'; drop table notes; --", "\x00", "$(id)", "",
    "0.0", "99999999999999999999.0", "{" * 300, "query x() { insert Person { name: \"Eve\" } }",
    "copy notes to '/tmp/stolen.csv'", "select * from read_csv('/etc/passwd')", "attach '/tmp/x.db'", "a" * 5000,
]  # fmt: skip
EXTRA = ("branch", "into", "path", "uri", "lake", "source", "at", "author", "storage_options", "_core", "self")


def test_an_agent_cannot_leave_its_branch_whatever_it_sends(lake: quire.Lake, tmp_path: Path) -> None:
    lake.create_branch("agents/b")
    heads = {b.name: b.head for b in lake.branches()}
    (tmp_path / "a.gq").write_text('query a() { insert Person { name: "from a file" } }')
    server = here(lake, write=True, branch="agents/a")

    async def talks(agent: Agent) -> int:
        await agent("begin")
        sent = 0
        for tool, description in (await agent.tools()).items():
            properties = description.input_schema.get("properties", {})
            for number, word in enumerate(HOSTILE):
                given: dict[str, Any] = {}
                for name, shape in properties.items():
                    kinds = str(shape)
                    given[name] = word if "string" in kinds else None
                    if name == "rows":
                        given[name] = [
                            {"type": word, "data": {"name": word}},
                            {"id": 1, "text": word, word or "x": word},
                        ]
                    elif name == "resolutions":
                        given[name] = [{"table": word, "fingerprint": word, "resolution": word, "merged": {word: word}}]
                    elif name == "request":
                        given[name] = number - 2
                    elif name in ("mode", "direction", "state", "key"):
                        given[name] = word
                given = {n: v for n, v in given.items() if v is not None and (n != "token" or v)}
                given[EXTRA[number % len(EXTRA)]] = word
                result = await agent.client.call_tool(tool, given)
                sent += 1
                said = result.content[0].text if result.content else ""
                assert "root:x" not in said
                assert str(tmp_path) not in said, said
                assert len(said) < 60_000
        return sent

    assert talk(server, talks) > 400
    after = {b.name: b.head for b in lake.branches()}
    assert {name: head for name, head in after.items() if name != "agents/a"} == heads
    assert not Path("/tmp/stolen.csv").exists()
    assert not any(row["name"] == "from a file" for row in quire.Graph(lake).table("Person").to_pylist())


@pytest.mark.parametrize("name", ["main", "agents/", "agents/../main", "other", "agents/a b", "agents//x", "/agents/x"])
def test_a_branch_elsewhere_is_refused_at_the_start(lake: quire.Lake, name: str) -> None:
    with pytest.raises(InvalidInput):
        workspace(lake, "demo", write=True, branch=name)


def test_the_branch_of_an_actor_is_below_agents_whatever_its_name() -> None:
    for name in ("ada", "../main", "ada@example.org", "", "a/b", "…", "HEAD"):
        assert own_branch(None, name).startswith("agents/")


def test_answers_are_bounded(lake: quire.Lake) -> None:
    lake.create_table("long", [{"id": 1, "text": "x" * 200_000}], key="id")

    async def talks(agent: Agent) -> None:
        told = await agent("sql", query="select * from long")
        assert told["truncated"]
        assert len(json.dumps(told)) < 51_000
        wide = "select " + ", ".join(f"repeat('{i % 10}', 400) as c{i}" for i in range(200)) + " from notes"
        assert len(json.dumps(await agent("sql", query=wide))) < 51_000

    talk(here(lake), talks)
    small = fitted({"rows": list(range(10))}, ("rows",), Bounds(rows=3))
    assert (small["rows"], small["truncated"]) == ([0, 1, 2], True)


def test_a_query_that_takes_too_long_ends(lake: quire.Lake) -> None:
    from dataclasses import replace

    space = replace(workspace(lake, "demo"), bounds=Bounds(seconds=0.3))

    async def talks(agent: Agent) -> None:
        slow = "select count(*) from range(10000000000) a, range(1000) b where a.range + b.range = 7"
        assert (await agent.fails("sql", query=slow))["kind"] == "limit-exceeded"
        assert (await agent("sql", query="select 1 as one"))["rows"] == [{"one": 1}]

    talk(build(space), talks)


# -- over stdin and stdout, and over HTTP ------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [False, True])
def test_over_stdin_and_stdout(lake: quire.Lake, write: bool) -> None:
    words = ["-m", "quire", "mcp", lake.uri, *(["--write", "--branch", "agents/a"] if write else [])]
    server = mcp.StdioServerParameters(command=sys.executable, args=words, env={**os.environ, "QUIRE_AUTHOR": "bot"})

    async def talks(agent: Agent) -> None:
        assert set(await agent.tools()) == (READ | WRITE if write else READ)
        assert (await agent("describe"))["lake"] == "lake"
        if write:
            assert (await work(agent))["request"] == 1

    talk(server, talks)
    assert lake.snapshot().tables()
    if write:
        assert lake.branch("agents/a").show("HEAD").author == "bot"


@pytest.fixture
def served(lake: quire.Lake, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server with keys: its address, and the keys by actor."""
    keys = KeyFile(tmp_path / "keys.json")
    made = {
        name: keys.create(name, [role])[1] for name, role in (("reader", "read"), ("bot", "write"), ("elf", "write"))
    }
    config = Config(lakes={"demo": LakeConfig(lake.uri)}, port=0, auth=AuthConfig(keys=str(tmp_path / "keys.json")))
    with running(config, RequestLog(lambda line: None)) as server:
        yield server.url, made


def over_http(url: str, token: str | None) -> Any:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return streamable_http_client(f"{url}/mcp/demo", http_client=httpx2.AsyncClient(headers=headers))


def test_over_http_roles_decide(lake: quire.Lake, served: tuple[str, dict[str, str]]) -> None:
    url, keys = served

    async def reads(agent: Agent) -> None:
        assert set(await agent.tools()) == READ
        assert (await agent("sql", query="select count(*) as n from notes"))["rows"] == [{"n": 500}]

    talk(over_http(url, keys["reader"]), reads)
    assert talk(over_http(url, keys["bot"]), work)["request"] == 1
    assert talk(over_http(url, keys["elf"]), lambda agent: work(agent, "Elf"))["request"] == 2
    authors = {b.name: b.author for b in lake.branches()}
    assert (authors["agents/bot"], authors["agents/elf"]) == ("bot", "elf")
    assert lake.branch("agents/elf").show("HEAD").author == "elf"
    assert quire.Graph(lake.branch("agents/elf")).node("Person", "Cy") is None
    with pytest.raises(BaseException):
        talk(over_http(url, "qk_no_such_key"), reads)


def test_over_stdin_somebody_elses_branch_is_not_taken_over(lake: quire.Lake) -> None:
    quire.open(lake.uri, author="eve").create_branch("agents/a")

    async def talks(agent: Agent) -> None:
        assert (await agent.fails("begin"))["kind"] == "denied"
        assert (await agent.fails("load", rows=[{"id": 9}], table="notes"))["kind"] == "denied"
        assert (await agent("describe"))["writes_to"] == "agents/a"

    talk(here(lake, write=True, branch="agents/a"), talks)
    assert lake.branch("agents/a").head == lake.head


def test_over_stdin_an_actor_is_held_to_the_policy(lake: quire.Lake) -> None:
    lake.policy.set(POLICY)
    words = ["-m", "quire", "mcp", lake.uri, "--write", "--actor", "bot", "--role", "write"]
    server = mcp.StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def talks(agent: Agent) -> None:
        assert "notes" not in {t["name"] for t in (await agent("describe"))["tables"]}
        assert "note 1" not in str(await agent.fails("sql", query="select text from notes"))
        await agent("begin")
        assert (await agent("query_add", name="Cy"))["inserted"] == {"Person": 1}

    talk(server, talks)
    assert lake.branch("agents/bot").show("HEAD").author == "bot"


def test_somebody_elses_branch_is_not_taken_over(lake: quire.Lake, served: tuple[str, dict[str, str]]) -> None:
    url, keys = served
    lake.create_branch("agents/bot")

    async def talks(agent: Agent) -> None:
        assert (await agent.fails("begin"))["kind"] == "denied"
        assert (await agent.fails("load", rows=[{"id": 9}], table="notes"))["kind"] == "denied"

    talk(over_http(url, keys["bot"]), talks)
    assert lake.branch("agents/bot").head == lake.head


def test_without_authentication_agents_read_only_and_from_here(lake: quire.Lake) -> None:
    import urllib.error
    import urllib.request

    config = Config(lakes={"demo": LakeConfig(lake.uri)}, port=0)
    with running(config, RequestLog(lambda line: None)) as server:
        url = server.url

        async def reads(agent: Agent) -> None:
            assert set(await agent.tools()) == READ

        talk(over_http(url, None), reads)
        for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            asked = urllib.request.Request(f"{url}/mcp/demo", b"{}", {"content-type": "application/json", **headers})
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(asked)
            assert caught.value.code == 403


POLICY = """
@id("bots") permit(principal in Role::"write", action, resource)
unless { resource in Table::"notes" };
@id("not the elf") forbid(principal == Actor::"elf", action == Action::"mergeInto", resource);
"""


def test_a_policy_holds_for_agents_and_may_let_them_merge(lake: quire.Lake, served: tuple[str, dict[str, str]]) -> None:
    url, keys = served
    lake.policy.set(POLICY)

    async def bot(agent: Agent) -> None:
        assert "merge" in await agent.tools()
        assert "notes" not in {t["name"] for t in (await agent("describe"))["tables"]}
        for tool, given in (
            ("sql", {"query": "select text from notes"}),
            ("search", {"table": "notes", "text": "note"}),
            ("history", {"name": "notes", "key": 1}),
            ("describe", {"name": "notes"}),
        ):
            assert "note 1" not in str(await agent.fails(tool, **given))
        await agent("begin")
        await agent("query_add", name="Cy")
        assert (await agent("merge", request=(await agent("propose", title="x"))["request"]))["commit"]

    async def elf(agent: Agent) -> None:
        assert "merge" not in await agent.tools()

    talk(over_http(url, keys["bot"]), bot)
    assert quire.Graph(lake).node("Person", "Cy") is not None
    talk(over_http(url, keys["elf"]), elf)
    with pytest.raises(BaseException):
        talk(over_http(url, keys["reader"]), bot)
