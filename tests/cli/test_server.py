"""Every command on a lake behind a server: it does the same, or says why it cannot be done there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import SCHEMA, Run

import quire
from quire.cli.command_table import SECTIONS
from quire.server.config import Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running

COMMANDS = [
    f"{name}{inner and ' '}{inner}"
    for section in SECTIONS.values()
    for name, entry in section.items()
    for inner in (entry.commands or [""])
]
ROWS = "new.csv"
VECTORS = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 2))])
WORKS: dict[str, list[list[str]]] = {
    "tables": [[]],
    "table create": [["days", "--schema", "day:date32!,n:int64", "--key", "day"], ["more", "--from", ROWS]],
    "table drop": [["events"]],
    "table rename": [["events", "happenings"]],
    "table describe": [["people"]],
    "table add-column": [["people", "age", "--type", "int32"]],
    "table drop-column": [["people", "name"]],
    "table rename-column": [["people", "name", "called"]],
    "table alter-column": [["people", "name", "--nullable"]],
    "table index": [["people", "name"]],
    "table drop-index": [["people", "none"]],
    "append": [["people", ROWS]],
    "insert": [["people", ROWS, "--ignore-existing"]],
    "upsert": [["people", ROWS]],
    "overwrite": [["people", ROWS]],
    "update": [["people", "id = 1", "--value", "name=Eve"]],
    "delete": [["people", "id = 1"]],
    "commit": [["--append", f"people={ROWS}", "--delete", "events=id = 1"]],
    "export": [["people", "out.csv"], ["out", "--table", "people"]],
    "sql": [["select count(*) as n from people"], ["select count(*) as n from people", "--at", "1.0"]],
    "search": [["vectors", "--vector", "[1, 0]", "-k", "1"]],
    "status": [[]],
    "log": [[], ["--graph"], ["--table", "people"]],
    "show": [["1.0"]],
    "diff": [["1.0"], ["1.0", "trial", "--since-base"]],
    "blame": [["people", "2"]],
    "changes": [["--since", "1.0"], ["people", "--format", "jsonl", "--cursor-file", "at"], ["--consumer", "c"]],
    "consumer list": [[]],
    "consumer drop": [["kept"]],
    "revert": [["2.0"], ["2.0", "--theirs"]],
    "restore": [["1.0"]],
    "outcome": [["qqqqqqqq/1/wwwwwwww"]],
    "branch list": [[]],
    "branch create": [["fresh"]],
    "branch delete": [["trial"]],
    "branch ff": [["trial"]],
    "merge": [["trial", "--preview"], ["trial"]],
    "cherry-pick": [["trial:3.0", "--preview"], ["trial:3.0"]],
    "request create": [["trial", "--title", "another"]],
    "request list": [[]],
    "request show": [["1"]],
    "request review": [["1", "approve"]],
    "request merge": [["1"]],
    "request close": [["1"]],
    "tag list": [[]],
    "tag create": [["v2"]],
    "tag delete": [["v1"]],
    "optimize": [["--dry-run"], []],
    "cleanup": [["--dry-run"], []],
    "backfill": [[]],
    "recover": [[]],
    "verify": [["--deep"]],
}
GRAPH: dict[str, list[list[str]]] = {
    "schema show": [[], ["--svg", "schema.svg"]],
    "schema plan": [["types.pg"]],
    "schema apply": [["types.pg"]],
    "load": [["more.jsonl"], ["more.jsonl", "--mode", "merge", "--dry-run"]],
    "query": [["friends", "--param", "name=Ada"], ["friends", "--param", "name=Ada", "--explain"]],
    "mutate": [["add", "--param", "name=Di"]],
    "lint": [[], ["query q() { match { $p: Person } return { $p.name } }"]],
    "stored add": [["query ages() { match { $p: Person } return { $p.age } }"]],
    "stored list": [[]],
    "stored show": [["friends"]],
    "stored remove": [["add"]],
    "stored run": [["friends", "--param", "name=Ada"]],
    "dump": [["all.ndjson"]],
    "blob": [["Person", "Ada", "name"]],
}
REFUSED: dict[str, list[str]] = {
    "init": [],
    "claim": [],
    "register": ["t", "/somewhere"],
    "register-all": ["/somewhere"],
    "adopt": ["people"],
    "take-over": ["people"],
    "doctor": [],
    "repair": [],
    "convert": ["events", "--to", "delta"],
    "algorithm": ["pagerank", "Knows"],
    "write-algorithm": ["pagerank", "Knows", "rank"],
    "paths": ["Knows", "Ada", "Bo"],
    "embed": [],
}
NO_LAKE = {"serve", "token create", "token list", "token revoke"}
FAILS_LIKE_HERE = {"table drop-index", "outcome", "blob"}
"""What these ask for is not there; the error is that of a lake that is opened here."""


def test_every_command_is_in_one_of_the_tables() -> None:
    assert {*WORKS, *GRAPH, *REFUSED, *NO_LAKE} >= {name for name in COMMANDS if name not in LATER}


LATER = {name for name in COMMANDS if name.split()[0] in ("mcp", "ui", "policy", "audit")}
"""What serves or governs lakes itself."""


@pytest.fixture(scope="module")
def prepared(template: Path, graph_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake and a graph with something for every command, and files for those that read some."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(template, folder / "lake")
    shutil.copytree(graph_template, folder / "graph")
    with quire.open(folder / "lake", author="tester") as lake:
        lake.create_table("vectors", [{"id": 1, "v": [1.0, 0.0]}], schema=VECTORS)
        lake.tag("v1", at="1.0")
        with lake.create_branch("trial").transaction() as tx:
            tx["people"].delete("id = 3")
        lake.requests.open("trial", "try")
        lake.consumers.open("kept")
    (folder / ROWS).write_text("id,name\n7,Zoe\n")
    (folder / "more.jsonl").write_text(json.dumps({"type": "Person", "data": {"name": "Zed"}}))
    (folder / "types.pg").write_text(SCHEMA.replace("age: I32?", "age: I32?  city: String?"))
    return folder


@pytest.fixture
def url(prepared: Path, here: Path) -> Iterator[str]:
    """Both behind a server, and here."""
    shutil.copytree(prepared, here, dirs_exist_ok=True)
    config = Config(lakes={"demo": LakeConfig("lake"), "graph": LakeConfig("graph")}, port=0)
    with running(config, RequestLog(lambda line: None)) as server:
        yield server.url


def same(found: Any) -> Any:
    """An answer without what differs from one run to the next, and from here to behind a server."""
    loose = {
        "time",
        "cost",
        "write",
        "token",
        "changed",
        "seconds",
        "uri",
        "lake",
        "author",
        "by",
        "location",
        "folder",
    }
    loose |= {"id", "cursor", "metadata", "values", "bytes", "load", "files", "fingerprint", "background_failures"}
    loose |= {"outside", "base", "log", "point", "kept", "receipt", "checkpoint", "uncheckpointed", "attempts"}
    loose |= {"pending_backfill", "names", "_commit_time", "horizon", "slots", "branch", "config", "outcome"}
    if isinstance(found, dict):
        return {name: same(value) for name, value in found.items() if name not in loose}
    return [same(one) for one in found] if isinstance(found, list) else found


@pytest.mark.parametrize("name", sorted({**WORKS, **GRAPH}))
def test_a_command_does_the_same_behind_a_server(name: str, url: str, run: Run, here: Path) -> None:
    lake = "graph" if name in GRAPH else "demo"
    words = name.split()
    behind = []
    for more in {**WORKS, **GRAPH}[name]:
        plain = run("--server", url, *words, lake, *more, code=None)
        assert (plain.code == 0) == (name not in FAILS_LIKE_HERE), plain
        if plain.code != 0:
            behind.append(plain.err.split("next:")[0].split(";")[0])
    if name in FAILS_LIKE_HERE:
        [more] = {**WORKS, **GRAPH}[name]
        local = run(*words, "lake" if lake == "demo" else "graph", *more, code=None)
        assert local.code != 0
        assert local.err.split()[:4] == behind[0].split()[:4]


READS = ["tables", "log", "show", "diff", "blame", "branch list", "tag list", "request list", "request show", "status"]
READS += ["changes", "sql", "consumer list", "schema show", "stored list", "query", "lint"]


@pytest.mark.parametrize(
    "name", [*READS, "changes", "sql", "consumer list", "schema show", "stored list", "query", "lint"]
)
def test_a_command_that_reads_prints_the_same_document(name: str, url: str, run: Run) -> None:
    lake, here = ("graph", "graph") if name in GRAPH else ("demo", "lake")
    [more, *_] = {**WORKS, **GRAPH}[name]
    behind = run(*name.split(), f"{url}/{lake}", *more, "--json").json
    assert same(behind) == same(run(*name.split(), here, *more, "--json").json)


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_storage_says_so(name: str, url: str, run: Run) -> None:
    error = run(*name.split(), f"{url}/demo", *REFUSED[name], "--json", code=None)
    assert error.code == 6 or error.code == 2, error
    said = error.json["error"]
    assert said["kind"] == "unsupported"
    assert "server" in said["message"]
    assert "address of the lake itself" in said["next"]


def test_where_a_lake_lies_and_who_asks_is_not_given_to_a_server(url: str, run: Run) -> None:
    for option in (("--storage-option", "a=b"), ("--external", "allow")):
        assert run("tables", f"{url}/demo", *option, "--json", code=None).json["error"]["kind"] == "unsupported"
    assert run("delete", f"{url}/demo", "people", "true", "--author", "x", code=None).code != 0
    assert "name of a lake" in run("--server", url, "tables", "s3://bucket/lake", code=2).err
    assert "this machine" in run("--server", url, "token", "list", "keys.json", code=2).err
    assert "no lake" in run("--server", url, "tables", "nowhere", code=3).err
