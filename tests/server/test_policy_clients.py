"""Unmodified clients of Lance and Delta before a lake with a policy: what is denied stays hidden, and unwritten."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import lancedb
import pyarrow as pa
import pytest
from tests import duckdb_client

import quire
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running

POLICY = """
permit(principal in Role::"analyst", action in Action::"read", resource in Lake::"lake")
unless { resource in Table::"salaries" || resource in Table::"bonuses" || resource == Column::"people/note" };
forbid(principal in Role::"analyst", action == Action::"readRow", resource in Table::"people")
unless { resource.dept == "a" };
permit(principal == Actor::"wim", action in [Action::"read", Action::"write"], resource in Lake::"lake");
"""
SECRETS = ("salaries", "bonuses", "S-note", "dept-b", "999777555333")


@dataclass(frozen=True)
class World:
    url: str
    token: str
    root: Path
    writer: str

    def namespace(self) -> Any:
        return spec.connect("rest", {"uri": f"{self.url}/lance/demo", "headers.x-api-key": self.token})

    def remote(self, token: str | None = None) -> Any:
        return lancedb.connect("db://demo", api_key=token or self.token, host_override=f"{self.url}/lance/demo")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("clients")
    lake = quire.create(folder / "lake", author="root")
    with lake.transaction("first") as tx:
        people = [{"id": i, "dept": ["a", "dept-b"][i % 2], "note": f"S-note-{i}"} for i in range(6)]
        tx.create_table("people", people, key="id")
        tx.create_table("logs", [{"text": "x"}])
        tx.create_table("salaries", [{"id": 1, "amount": 999777555333}])
        tx.create_table("orders", [{"id": 1, "total": 3}], format="delta")
        tx.create_table("bonuses", [{"id": 1, "amount": 999777555333}], format="delta")
    lake.policy.set(POLICY)
    lake.close()
    keys = KeyFile(folder / "keys.json")
    token = keys.create("ada", ["admin"], policy_roles=["analyst"])[1]
    writer = keys.create("wim", ["write"])[1]
    config = Config(lakes={"demo": LakeConfig(str(folder / "lake"))}, port=0, auth=AuthConfig(keys=str(keys.path)))
    with running(config, RequestLog(lambda line: None)) as server:
        yield World(server.url, token, folder / "lake", writer)


@pytest.fixture
def unwritten(world: World) -> Iterator[None]:
    """Whatever was tried, nothing was committed."""
    lake = quire.open(world.root, read_only=True)
    before = lake.head
    yield
    assert lake.refresh() == before


def failure(call: Callable[[], Any]) -> str:
    """What a client says when it was refused; all of its words, in the chain of its errors, too."""
    try:
        found = call()
    except Exception as error:
        told, at = "", error
        while at is not None:
            told += f"{type(at).__name__}: {at}\n"
            at = at.__cause__ or at.__context__  # type: ignore[assignment]
        return told
    raise AssertionError(f"it was not refused: {found!r}")


def hidden(told: str, *own: str) -> bool:
    for word in own:
        told = told.replace(word, "…")
    return not any(secret in told for secret in SECRETS)


def opened(world: World, table: str) -> lance.LanceDataset:
    return lance.dataset(namespace_client=world.namespace(), table_id=[table])


@pytest.mark.usefixtures("unwritten")
def test_pylance_finds_what_may_be_read_and_is_given_no_files(world: World) -> None:
    namespace = world.namespace()
    assert set(namespace.list_tables(spec.ListTablesRequest(id=[])).tables) == {"logs", "orders", "people"}
    for table in ("people", "logs"):
        told = failure(lambda table=table: opened(world, table))  # type: ignore[misc]
        assert "past the policy" in told
        assert hidden(told)
    denied, unknown = (failure(lambda name=name: opened(world, name)) for name in ("salaries", "celeries"))  # type: ignore[misc]
    assert "There is no table" in denied
    assert denied.replace("salaries", "celeries") == unknown
    assert hidden(denied, "salaries")
    assert hidden(unknown)


@pytest.mark.usefixtures("unwritten")
@pytest.mark.parametrize("table", ["people", "logs", "salaries", "celeries"])
@pytest.mark.parametrize("mode", ["append", "overwrite", "create"])
def test_pylance_writes_nothing(world: World, table: str, mode: str) -> None:
    rows = pa.table({"id": [9], "dept": ["a"], "note": ["mine"]})
    options: dict[str, Any] = {"namespace_client": world.namespace(), "table_id": [table], "mode": mode}
    assert hidden(failure(lambda: lance.write_dataset(rows, **options)), table)


def test_the_remote_client_of_lancedb_reads_what_is_seen(world: World) -> None:
    db = world.remote()
    assert sorted(db.table_names()) == ["logs", "orders", "people"]
    people = db.open_table("people")
    assert people.schema.names == ["id", "dept"]
    assert people.count_rows() == 3
    assert people.search().limit(10).to_arrow().to_pydict() == {"id": [0, 2, 4], "dept": ["a", "a", "a"]}
    assert people.search().where("dept != 'a'").limit(10).to_arrow().num_rows == 0
    for asked in (
        lambda: people.search().where("note is not null").to_arrow(),
        lambda: people.search().select(["note"]).to_arrow(),
        lambda: people.count_rows("note is not null"),
    ):
        assert hidden(failure(asked))
    denied, unknown = (failure(lambda name=name: db.open_table(name)) for name in ("salaries", "celeries"))  # type: ignore[misc]
    assert without_ids(denied.replace("salaries", "celeries")) == without_ids(unknown)
    assert hidden(denied, "salaries")
    assert hidden(unknown)


def without_ids(told: str) -> str:
    import re

    return re.sub(r"[0-9a-f-]{32,36}", "", told)


@pytest.mark.usefixtures("unwritten")
def test_the_remote_client_of_lancedb_writes_nothing(world: World) -> None:
    db = world.remote()
    people, logs = db.open_table("people"), db.open_table("logs")
    for tried in (
        lambda: people.add([{"id": 9, "dept": "a"}]),
        lambda: people.delete("id = 0"),
        lambda: people.update(where="id = 0", values={"dept": "b"}),
        lambda: people.merge_insert("id").when_not_matched_insert_all().execute([{"id": 9, "dept": "a"}]),
        lambda: logs.add([{"text": "y"}]),
        lambda: logs.delete("true"),
        lambda: db.create_table("mine", [{"id": 1}]),
        lambda: db.drop_table("logs"),
        lambda: db.drop_table("salaries"),
        lambda: logs.create_scalar_index("text"),
    ):
        with contextlib.suppress(NotImplementedError):  # not every release of the client knows every verb
            assert hidden(failure(tried), "salaries")  # type: ignore[arg-type]


def test_the_remote_client_of_lancedb_writes_what_a_policy_lets_it(world: World) -> None:
    logs = world.remote(world.writer).open_table("logs")
    logs.add([{"text": "y"}])
    assert logs.search().limit(10).to_arrow()["text"].to_pylist() == ["x", "y"]
    logs.delete("text = 'y'")
    assert logs.count_rows() == 1
    assert quire.open(world.root, read_only=True).log(limit=1)[0].author == "wim"


@pytest.mark.slow
@pytest.mark.usefixtures("unwritten")
def test_duckdb_in_front_of_the_catalogue_is_given_no_files(world: World) -> None:
    where = f"{world.url}/delta/demo"
    names = ("orders", "bonuses", "celeries")
    answers = duckdb_client.run(
        f"create secret (type uc, token '{world.token}', endpoint '{where}', aws_region 'us-east-1')",
        "attach 'lake' as lake (type unity_catalog, default_schema 'default')",
        *(f"select * from lake.default.{name}" for name in names),
        *(f"insert into lake.default.{name} values (9, 9)" for name in names),
        "show all tables",
        extensions=("httpfs", "delta", "unity_catalog"),
    )
    assert all("error" in answer for answer in answers[2:-1])
    assert hidden(str(answers[2:]), "lake.default.bonuses", '"bonuses"', "named bonuses", "name bonuses")
