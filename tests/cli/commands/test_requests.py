"""Merge requests on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_request_is_made_reviewed_and_closed(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    made = run("request", "create", lake, "exp", "--title", "Try it", "--text", "two\nlines", "--json").json
    assert (made["number"], made["state"], made["source"], made["target"]) == (1, "open", "exp", "main")
    Path("resolutions.jsonl").write_text(
        json.dumps({"table": "t", "fingerprint": "f", "resolution": "ours"})
        + "\n"
        + json.dumps({"table": "t", "fingerprint": "g", "resolution": None})
        + "\n"
    )
    said = run("request", "review", lake, "1", "approve", "--text", "fine", "--resolutions", "resolutions.jsonl").out
    assert said == "reviewed request 1: exp into main: Try it\n"
    shown = run("request", "show", lake, "1").out
    assert "fine" in shown
    assert "1 conflicts are resolved in it" in shown
    assert len(run("request", "list", lake, "--json").json["requests"]) == 1
    assert [line[:2] for line in run("request", "list", lake).lines()] == [["request", "state"], ["1", "open"]]
    run("request", "close", lake, "1")
    assert run("request", "list", lake, "--json").json["requests"] == []
    assert run("request", "list", lake, "--state", "all", "--json").json["requests"][0]["state"] == "closed"
    assert run("request", "close", lake, "1", "--reopen", "--json").json["state"] == "open"


def test_what_is_wrong_is_told(run: Run, lake: str) -> None:
    assert run("request", "show", lake, "7", "--json", code=3).json["error"]["kind"] == "request-not-found"
    assert run("request", "review", lake, "7", "maybe", code=2).err
    Path("bad.jsonl").write_text("{")
    for name in ("bad.jsonl", "none.jsonl"):
        told = run("request", "review", lake, "7", "approve", "--resolutions", name, "--json", code=2).json["error"]
        assert name in told["message"]


def test_a_request_is_merged(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    run("table", "create", lake, "made", "--schema", "id:int64", "-b", "exp")
    run("request", "create", lake, "exp", "--title", "Try it")
    run("request", "review", lake, "1", "object", "--text", "no")
    assert "objections" in run("request", "merge", lake, "1", code=6).err
    done = run("request", "merge", lake, "1", "--force", "--mode", "no-ff", "-m", "in it goes", "--json").json
    assert run("log", lake, "--json").json["commits"][0]["message"] == "in it goes"
    assert run("request", "show", lake, "1", "--json").json["merged"] == done["commit"]
    assert "already committed" in run("request", "merge", lake, "1").out
