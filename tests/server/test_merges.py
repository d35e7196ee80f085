"""Branches are merged over HTTP, with preview and conflicts, and asked to be merged; upkeep runs as jobs."""

from __future__ import annotations

import time

from tests.server.web import Web


def edit(web: Web, branch: str, name: str) -> None:
    web.commit({"op": "update", "table": "people", "values": {"name": name}, "where": "id = 1"}, branch=branch)


def test_a_clean_merge(web: Web) -> None:
    edit(web, "trial", "Theirs")
    web.commit({"op": "append", "table": "notes", "rows": [{"text": "ours"}]})
    plan = web("POST", "merges", {"source": "trial", "preview": True}).json
    assert (plan["outcome"], plan["open"]) == ("merged", 0)
    done = web("POST", "merges", {"source": "trial"}).json
    assert done["commit"]
    assert web.get("tables/people/rows?filter=id%20%3D%201").json["rows"][0]["name"] == "Theirs"
    assert len(web.get(f"commits/{done['commit']}").json["parents"]) == 2


def test_conflicts_are_told_and_resolved(web: Web) -> None:
    edit(web, "trial", "Theirs")
    edit(web, "main", "Ours")
    head = web.get("tables").json["commit"]
    plan = web("POST", "merges", {"source": "trial", "preview": True}).json
    [conflict] = plan["conflicts"]
    assert (conflict["table"], conflict["kind"], conflict["columns"]) == ("people", "update-update", ["name"])
    said = web("POST", "merges", {"source": "trial"}, status=409).json
    assert (said["kind"], said["count"]) == ("unresolved-conflicts", 1)
    assert web.get("tables").json["commit"] == head
    web("POST", "merges", {"source": "trial", "resolve": "theirs"})
    assert web.get("tables/people/rows?filter=id%20%3D%201").json["rows"][0]["name"] == "Theirs"
    assert web("POST", "merges", {"source": "trial", "preview": True}).json["outcome"] == "up-to-date"


def test_requests_are_opened_reviewed_and_closed(web: Web) -> None:
    made = web("POST", "requests", {"source": "trial", "title": "Try it"}, status=201)
    number = made.json["number"]
    assert made.headers["location"].endswith(f"/requests/{number}")
    web("POST", f"requests/{number}/reviews", {"verdict": "approve", "text": "fine"})
    shown = web.get(f"requests/{number}").json
    assert [(r["verdict"], r["author"]) for r in shown["reviews"]] == [("approve", "anonymous")]
    assert [r["number"] for r in web.get("requests").json["requests"]] == [number]
    web("POST", f"requests/{number}/close", {"text": "no"})
    assert web.get("requests").json["requests"] == []
    assert web("POST", f"requests/{number}/reopen").json["state"] == "open"
    web.get("requests/99", status=404)
    web.get("requests/x", status=400)


def test_upkeep_runs_as_a_job(web: Web) -> None:
    for verb in ("optimize", "cleanup", "recover", "verify"):
        begun = web("POST", f"maintenance/{verb}", {"dry_run": True} if verb != "verify" else {}, status=202)
        job, until = begun.json, time.monotonic() + 60
        while job["state"] == "running" and time.monotonic() < until:
            time.sleep(0.02)
            job = web.get(begun.headers["location"]).json
        assert job["state"] == "done", job
        assert job["actor"] == "anonymous"
    assert job["result"]["ok"]
    web("POST", "maintenance/nothing", {}, status=404)
    web.get("jobs/nope", status=404)
    said = web.get("status").json
    assert said["tables"] == 2
    assert "uri" not in said
