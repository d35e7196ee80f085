"""The audit of a server: every write and every attempt that was refused, with who and by which request, in any lake."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.server.web import Reply, Web, arrow

import quire
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.route_table import ROUTES
from quire.server.serve import running
from quire.server.ui.ui_routes import ROUTES as PAGES

COMMITTING = {
    "commit-new", "revert", "cherry-pick", "restore", "fast-forward", "transaction-commit", "apply-schema",
    "store-queries", "delete-query", "mutate", "load", "merge", "merge-resolved",
}  # fmt: skip
"""Their commits tell of them."""
OPEN = {"begin", "operations", "transaction-sql", "discard"}
"""What they do is not there before a commit."""


def test_every_route_that_writes_is_told_by_a_commit_or_by_the_audit() -> None:
    writing = {route.name for route in (*ROUTES, *PAGES) if route.writes and "{lake}" in route.path}
    audited = {route.name for route in (*ROUTES, *PAGES) if route.audited}
    assert audited & (COMMITTING | OPEN) == set()
    assert writing == (audited - {"agents"}) | COMMITTING | OPEN


def ids(*replies: Reply) -> set[str]:
    return {reply.headers["x-request-id"] for reply in replies}


def test_without_a_policy_everything_is_told_that_was_done_or_refused(lake: quire.Lake, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    tokens = {role: keys.create(role, [role])[1] for role in ("read", "write", "admin")}
    tokens["other"] = keys.create("other", ["admin"], lakes=["another"])[1]
    config = Config(lakes={"demo": LakeConfig(lake.uri)}, port=0, auth=AuthConfig(keys=str(keys.path)))
    with running(config, RequestLog(lambda line: None), check_answers=True) as server:
        reads, writes, admin, other = (Web(server.url, token=token) for token in tokens.values())
        done = [
            writes.commit({"op": "append", "table": "notes", "rows": [{"text": "two"}]}),
            writes("POST", "branches", {"name": "mine"}, status=201),
            writes("POST", "tags", {"name": "first"}, status=201),
            writes("POST", "requests", {"source": "mine", "title": "t"}, status=201),
            writes("POST", "requests/1/reviews", {"verdict": "comment", "text": "t"}),
            writes("POST", "requests/1/close", {}),
            writes("POST", "consumers", {"name": "c", "since": "beginning"}),
            writes("POST", "consumers/c/reset", {"since": "now"}),
            writes("DELETE", "consumers/c", status=204),
            writes("POST", "/lance/demo/v1/table/notes/insert", body=arrow(pa.table({"text": ["three"]}))),
            admin("DELETE", "tags/first", status=204),
            admin("POST", "maintenance/verify", {}, status=202),
        ]
        refused = [
            reads("POST", "commits", {}, status=403),
            writes("DELETE", "tags/v1", status=403),
            other.get("tables", status=404),
        ]
        for _ in range(3):
            Web(server.url, token="qk_nobody").get("tables", status=401)
        Web(server.url, lake="none").get("tables", status=401)
        assert reads.get("tables").status == 200
    told = lake.audit()
    assert {entry.request for entry in told if entry.what in ("did", "wrote")} - {""} == ids(*done)
    assert {entry.actor for entry in told if entry.request} == {"read", "write", "admin", "other"}
    assert {entry.request for entry in told if entry.what == "denied" and entry.actor} == ids(*refused)
    assert [(entry.name, entry.kind) for entry in told if entry.action in ("tag", "delete_tag")] == [
        ("first", "Tag")
    ] * 2
    [nobody] = [entry for entry in told if entry.what == "denied" and not entry.actor]
    assert (nobody.action, nobody.count, nobody.request) == ("tables", 3, "")


def test_a_server_that_only_reads_tells_its_log(
    lake: quire.Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def asked(**how: Any) -> None:
        config = Config(lakes={"demo": LakeConfig(lake.uri, read_only=True)}, port=0, **how)
        with running(config, RequestLog(lambda line: None)) as server:
            Web(server.url, token="qk_nobody").get("tables", status=401)

    keys = KeyFile(tmp_path / "keys.json")
    keys.create("ada", ["read"])
    with caplog.at_level(logging.WARNING, "quire"):
        asked(auth=AuthConfig(keys=str(keys.path)))
    assert "denied" in caplog.text
    assert lake.audit(denied=True) == []
