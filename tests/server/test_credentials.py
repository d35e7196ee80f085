"""Credentials of the store for clients: of a real token service, used by an unmodified client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.server.conftest import Serve
from tests.server.web import Web

import quire
from quire.errors import InvalidInput, TableNotFound, Unsupported
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig, SessionsConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running
from quire.testing.s3 import MinistackWithRights

REGION = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}
POLICY = """
permit(principal in Role::"boss", action, resource);
permit(principal in Role::"vendee", action in [Action::"read", Action::"vend"], resource in Lake::"lake");
forbid(principal, action == Action::"vend", resource) when { principal.name == "refused" };
forbid(principal, action == Action::"readRow", resource in Table::"people") when { principal.name == "rows" }
unless { resource.id == 1 };
@mask("null") permit(principal == Actor::"masked", action == Action::"readColumn", resource == Column::"people/name");
forbid(principal == Actor::"columns", action == Action::"readColumn", resource == Column::"people/name");
forbid(principal == Actor::"branches", action == Action::"read", resource == Branch::"trial");
forbid(principal == Actor::"there", action == Action::"read", resource == Table::"people")
when { context.branch == "trial" };
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[MinistackWithRights]:
    with MinistackWithRights() as server:
        yield server


@pytest.fixture(scope="module")
def config(stack: MinistackWithRights, tmp_path_factory: pytest.TempPathFactory) -> Config:
    uri = stack.uri("shop")
    lake = quire.create(uri, storage_options=stack.options, backfill=False, author="root")
    with lake.transaction("first") as tx:
        tx.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
        tx.create_table("other", [{"id": 7}])
    with lake.transaction("second") as tx:
        tx["people"].insert([{"id": 2, "name": "Grace"}])
    lake.create_branch("trial")
    lake.close()
    role = stack.make_role("shop", json.dumps({"Version": "2012-10-17", "Statement": [REGION]}))
    found = LakeConfig(uri, stack.options, sessions=SessionsConfig(role))
    keys = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    return Config(lakes={"demo": found}, port=0, auth=AuthConfig(keys=str(keys.path)))


def actor(config: Config, name: str, *roles: str) -> str:
    assert config.auth is not None
    assert config.auth.keys is not None
    return KeyFile(Path(config.auth.keys)).create(name, ["read"], policy_roles=list(roles))[1]


def opened(found: dict[str, Any], table: str) -> lance.LanceDataset:
    where = found["tables"][table]
    return lance.dataset(where["location"], version=int(where["version"]), storage_options=found["options"])


def test_a_client_reads_the_files_of_the_tables_that_it_asked_for(config: Config) -> None:
    token = actor(config, "ada")
    with running(config, RequestLog(lambda line: None), check_answers=True) as server:
        lake = quire.connect(f"{server.url}/demo", token=token)
        now, then = lake.credentials(["people"]), lake.credentials(["people"], at="1.0")
        both = lake.credentials(["people", "other"])
        with pytest.raises(TableNotFound):
            lake.credentials(["people", "nobody"])
        with pytest.raises(InvalidInput):
            lake.credentials([])
        raw = Web(server.url, token=token)("POST", "credentials", {"tables": ["people"]})
    assert raw.headers["cache-control"] == "no-store"
    assert opened(now, "people").to_table()["id"].to_pylist() == [1, 2]
    assert opened(then, "people").to_table()["id"].to_pylist() == [1]
    assert opened(both, "other").to_table()["id"].to_pylist() == [7]
    with pytest.raises((OSError, ValueError), match=r"(?i)403|denied|forbidden"):
        opened({**both, "options": now["options"]}, "other").to_table()
    with pytest.raises(OSError, match=r"(?i)403|denied|forbidden"):
        lance.write_dataset(
            opened(now, "people").to_table(), now["tables"]["people"]["location"], mode="append",
            storage_options=now["options"],
        )  # fmt: skip
    secret = config.lakes["demo"].storage_options["aws_secret_access_key"]
    assert secret.encode() not in raw.body


def test_who_does_not_see_all_of_a_table_is_given_nothing(config: Config, stack: MinistackWithRights) -> None:
    lake = quire.open(
        config.lakes["demo"].uri, storage_options=stack.options, actor="root", roles=["boss"], guarded=True
    )
    lake.policy.set(POLICY)
    tokens = {
        name: actor(config, name, "vendee")
        for name in ("whole", "refused", "rows", "masked", "columns", "branches", "there")
    }
    with running(config, RequestLog(lambda line: None), check_answers=True) as server:
        for name, token in tokens.items():
            reply = Web(server.url, token=token)(
                "POST", "credentials", {"tables": ["people"]}, status=200 if name == "whole" else 403
            )
            assert (b"aws_secret" in reply.body) is (name == "whole")
    told = [(entry.actor, entry.what, entry.name) for entry in lake.audit() if entry.action == "vend"]
    assert told.count(("whole", "did", "people")) == 1
    assert {name for name, what, _ in told if what == "denied"} == tokens.keys() - {"whole"}
    lake.close()


def test_a_lake_without_sessions_gives_none(lake: quire.Lake, serve: Serve) -> None:
    with serve(demo=lake.uri) as web:
        assert web("POST", "credentials", {"tables": ["people"]}, status=501).json["kind"] == "unsupported"
        assert web("POST", "credentials", {"tables": ["nobody"]}, status=404).json["kind"] == "table-not-found"
    with (
        pytest.raises(Unsupported),
        running(Config(lakes={"demo": LakeConfig(lake.uri, sessions=SessionsConfig("role"))}, port=0)),
    ):
        pass
