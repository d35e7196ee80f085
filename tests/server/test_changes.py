"""The feed over HTTP: nothing is missed, nothing told twice, and waiting costs no thread."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import Serve
from tests.server.web import Web

import quire
from quire.server.config import Limits


def append(web: Web, text: str) -> str:
    commit: str = web.commit({"op": "append", "table": "notes", "rows": [{"text": text}]}).json["commit"]
    return commit


def events(web: Web, path: str, **headers: str) -> Iterator[tuple[str, Any]]:
    """The events of a stream: id and data."""
    connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=20)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request("GET", f"/v1/lakes/demo/{path}", headers={"accept": "text/event-stream", **named})
    answer = connection.getresponse()
    assert answer.status == 200
    id = ""
    try:
        while line := answer.readline():
            if line.startswith(b"id: "):
                id = line[4:].decode().strip()
            elif line.startswith(b"data: "):
                yield id, json.loads(line[6:])
    finally:
        connection.close()


def test_commits_by_pages_with_their_rows(web: Web) -> None:
    page = web.get("changes?since=beginning&limit=1&tables=notes").json
    texts, commits = [], []
    while page["changes"]:
        [block] = page["changes"]
        commits.append(block["commit"])
        texts += [row["text"] for table in block["tables"] for row in table["rows"]]
        page = web.get(f"changes?cursor={page['cursor']}&limit=1&tables=notes").json
    assert (commits, texts) == (["1.0", "2.0"], ["one"])


def test_a_cursor_of_another_question_is_refused(web: Web) -> None:
    cursor = web.get("changes?since=beginning&tables=notes").json["cursor"]
    web.get(f"changes?cursor={cursor}", status=400)


def test_a_client_that_waits_hears_at_once(web: Web) -> None:
    cursor = web.get("changes").json["cursor"]
    heard: list[tuple[float, Any]] = []

    def wait() -> None:
        page = web.get(f"changes?cursor={cursor}&wait=20").json
        heard.append((time.monotonic(), page))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    commit = append(web, "news")
    thread.join()
    [(when, page)] = heard
    assert [block["commit"] for block in page["changes"]] == [commit]
    assert when - began < 5


def test_the_commits_of_others_are_heard_too(web: Web, lake: quire.Lake) -> None:
    cursor = web.get("changes").json["cursor"]
    timer = threading.Timer(0.3, lambda: lake["notes"] and _append_beside(lake))
    timer.start()
    page = web.get(f"changes?cursor={cursor}&wait=20").json
    assert [row["text"] for block in page["changes"] for t in block["tables"] for row in t["rows"]] == ["beside"]


def _append_beside(lake: quire.Lake) -> None:
    with lake.transaction(fresh=True) as tx:
        tx["notes"].append([{"text": "beside"}])


def test_a_wait_without_news_ends(web: Web) -> None:
    began = time.monotonic()
    page = web.get("changes?wait=0.4").json
    assert page["changes"] == []
    assert time.monotonic() - began >= 0.35


def test_events_go_on_where_a_lost_connection_ended(web: Web) -> None:
    stream = events(web, "changes?since=beginning&tables=notes")
    cursor, first = next(stream)
    assert first["commit"] == "1.0"
    stream.close()  # type: ignore[attr-defined]
    commits = [append(web, f"n{n}") for n in range(3)]
    again = events(web, "changes?since=beginning&tables=notes", last_event_id=cursor)
    found = [next(again)[1]["commit"] for _ in range(4)]
    assert found == ["2.0", *commits]
    later = append(web, "later")
    assert next(again)[1]["commit"] == later
    again.close()  # type: ignore[attr-defined]


def test_many_wait_without_threads(lake: quire.Lake, serve: Serve) -> None:
    with serve(Limits(threads=4, followers=60), demo=lake.uri) as web:
        cursor, heard = web.get("changes").json["cursor"], []

        def wait() -> None:
            heard.append(web.get(f"changes?cursor={cursor}&wait=20").json["changes"][0]["commit"])

        threads = [threading.Thread(target=wait) for _ in range(50)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        assert web.get("/healthz", timeout=5).status == 200
        assert "quire_http_followers 50" in web.get("/metrics").body.decode()
        commit = append(web, "news")
        for thread in threads:
            thread.join()
        assert heard == [commit] * 50


def test_beyond_the_limit_nobody_waits(lake: quire.Lake, serve: Serve) -> None:
    with serve(Limits(followers=1), demo=lake.uri) as web:
        thread = threading.Thread(target=lambda: web.get("changes?wait=3"))
        thread.start()
        time.sleep(0.5)
        reply = web.get("changes?wait=3", status=429)
        assert (reply.json["kind"], reply.headers["retry-after"]) == ("throttled", "5")
        thread.join()


@pytest.mark.parametrize("path", ["changes?limit=-1", "changes?wait=-1", "changes?images=all", "changes?since=nowhere"])
def test_what_cannot_be_followed(web: Web, path: str) -> None:
    assert web.get(path, status=None).status in (400, 404)
