"""What a browser is given, without one: pages and their twins, files, who comes in, and what other sites may not do."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.server.web import Reply, Web

import quire
from quire.lake.handles import store_of
from quire.ledger import FORMAT, encode
from quire.ledger.notes_and_leases import Note, note_key
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running
from quire.server.ui import assets

ROOT = Path(__file__).resolve().parents[2]
TWINS = (
    "tables", "table?name=people", "commits", "commit?id=1.0", "compare?a=main&b=trial", "conflicts?source=trial",
    "sql", "graph", "schema", "upkeep", "live", "requests",
)  # fmt: skip
"""Pages that a lake without a graph and without requests has."""


def data_of(reply: Reply) -> dict[str, Any]:
    found = re.search(rb'<script type="application/json" id="data">(.*?)</script>', reply.body)
    assert found is not None
    said: dict[str, Any] = json.loads(found[1])
    return said


CHANGES = ("cost", "cursor", "load", "checkpoint", "uncheckpointed", "pending_backfill", "recoveries")


def lasting(data: Any) -> Any:
    """What does not change from one look to the next."""
    if isinstance(data, dict):
        return {name: lasting(value) for name, value in data.items() if name not in CHANGES}
    return [lasting(one) for one in data] if isinstance(data, list) else data


@pytest.mark.parametrize("page", TWINS)
def test_a_page_holds_what_its_twin_says(web: Web, page: str) -> None:
    name, _, query = page.partition("?")
    shown = data_of(web("GET", f"/ui/demo/{page}"))
    twin = web("GET", f"/ui/demo/{name}.json?{query}").json
    assert shown["page"] == name
    assert shown.keys() - {"nonce"} == twin.keys()
    assert lasting(shown["data"]) == lasting(twin["data"])
    assert shown["cost"]["total"] + shown["cost"]["lance"] >= 1


def test_a_document_has_no_script_and_no_style_of_its_own(web: Web) -> None:
    reply = web("GET", "/ui/demo/tables")
    policy = reply.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    text = reply.body.decode()
    assert re.findall(r"<script(?![^>]*(?:src=|application/json))", text) == []
    assert re.findall(r"<style|\bstyle=|\bon\w+=", text) == []


def test_data_of_a_page_cannot_end_it(web: Web, lake: quire.Lake) -> None:
    with lake.transaction("</script><script>alert(1)</script><!--") as tx:
        tx["notes"].append([{"text": "x"}])
    reply = web("GET", "/ui/demo/commits")
    assert b"alert(1)</script>" not in reply.body
    assert data_of(reply)["data"]["commits"][0]["message"] == "</script><script>alert(1)</script><!--"


@pytest.mark.parametrize("path", ["/ui/", "/ui/demo/tables", "/ui/demo/table?name=people", "/ui/demo/nothing/here"])
def test_every_address_in_a_document_is_relative(web: Web, path: str) -> None:
    reply = web("GET", path, status=None, accept="text/html")
    addresses = re.findall(r'(?:src|href)="([^"]+)"', reply.body.decode())
    assert addresses
    assert [a for a in addresses if a.startswith(("/", "http:", "https:", "//"))] == []
    base = web.url + path.partition("?")[0]
    for address in addresses:
        if "static/" in address:
            with urllib.request.urlopen(urllib.request.Request(urllib.parse.urljoin(base, address))) as answer:
                assert "immutable" in answer.headers["cache-control"]


def test_modules_and_styles_name_no_other_host() -> None:
    own = {name: data.decode() for name, data in assets.every().items() if "vendor/" not in name and name[-3:] != "svg"}
    assert len(own) > 15
    for name, text in own.items():
        assert re.findall(r"https?://(?!www\.w3\.org)[\w.]+", text) == [], name


def test_what_is_vendored_is_what_is_written_down() -> None:
    listed = json.loads(assets.every()["vendor/vendor.json"])
    files = {n.removeprefix("vendor/"): d for n, d in assets.every().items() if n.startswith("vendor/")}
    assert listed.keys() == files.keys() - {"vendor.json", "licences.txt"}
    licences = files["licences.txt"].decode()
    for name, told in listed.items():
        assert hashlib.sha256(files[name]).hexdigest() == told["sha256"], name
        assert told["packages"][0]["version"] in name
        assert all(f"\n{package['name']}\n" in licences for package in told["packages"])


@pytest.mark.parametrize("name", ["tokens.css", "mark.svg"])
def test_what_pages_and_documentation_share_exists_once(name: str) -> None:
    found = [path for folder in ("src", "website") for path in (ROOT / folder).rglob(name)]
    assert [path.relative_to(ROOT).as_posix() for path in found] == [f"src/quire/server/ui/static/{name}"]
    assert assets.every()[name] == found[0].read_bytes()


def test_styles_use_the_tokens_and_no_colours_of_their_own() -> None:
    tokens, styles = assets.every()["tokens.css"].decode(), assets.every()["ui.css"].decode()
    defined = set(re.findall(r"(--[qu]-[\w-]+):", tokens + styles))
    assert set(re.findall(r"var\((--[qu]-[\w-]+)\)", styles)) <= defined
    loose = [line for line in styles.splitlines() if re.search(r"#[0-9a-f]{6}\b", line) and "--u-lane" not in line]
    assert loose == []


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/ui/demo/table?name=nobody", 404, "table-not-found"),
        ("/ui/elsewhere/tables", 404, "lake-not-found"),
        ("/ui/demo/commit?id=99.0", 404, "commit-not-found"),
        ("/ui/demo/tables?colour=red", 400, "invalid-input"),
    ],
)
def test_what_goes_wrong_is_a_page_with_its_status(web: Web, path: str, status: int, kind: str) -> None:
    reply = web("GET", path, status=status)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    said = data_of(reply)
    assert (said["page"], said["problem"]["status"]) == ("problem", status)
    assert said["problem"]["next"]
    assert web("GET", path.replace("?", ".json?") if "?" in path else path + ".json", status=status).json["kind"]


# -- who comes in ----------------------------------------------------------------------------------------------------


class Browser:
    """A client that keeps cookies and says where it comes from, as browsers do."""

    def __init__(self, url: str) -> None:
        self.url, self.cookie = url, ""

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        sent = {"sec-fetch-site": "same-origin", "cookie": self.cookie}
        sent |= {name.replace("_", "-"): text for name, text in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {k: v for k, v in sent.items() if v}, method=method)
        opener = urllib.request.build_opener(_Stay)
        try:
            with opener.open(request) as answer:
                reply = Reply(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
        except urllib.error.HTTPError as error:
            reply = Reply(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


@pytest.fixture
def private(lake: quire.Lake) -> Iterator[tuple[Browser, str]]:
    """A server as `quire ui --write` starts it, and its one-time path."""
    with running(Config(lakes={"demo": LakeConfig(lake.uri)}, port=0, private=True), RequestLog(lambda _: None)) as s:
        origin, _, rest = s.url.partition("/ui/")
        yield Browser(origin), f"/ui/{rest}"


def test_the_word_works_once(private: tuple[Browser, str]) -> None:
    browser, link = private
    assert browser("GET", "/ui/demo/tables").status == 401
    assert browser("GET", "/v1/lakes/demo/tables").status == 401
    assert browser("GET", "/ui/enter?word=guess").status == 401
    entered = browser("GET", link)
    assert (entered.status, entered.headers["location"]) == (303, "./")
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in entered.headers["set-cookie"].split(";")}
    assert browser("GET", "/ui/demo/tables").status == 200
    assert browser("GET", "/v1/lakes/demo/tables").status == 200
    other = Browser(browser.url)
    assert other("GET", link).status == 401
    other.cookie = "quire_session=made-up"
    refused = other("GET", "/ui/demo/tables")
    assert (refused.status, data_of(refused)["problem"]["expired"]) == (401, True)


def test_writes_by_a_cookie_come_from_own_pages(private: tuple[Browser, str], lake: quire.Lake) -> None:
    browser, link = private
    browser("GET", link)
    change = {"operations": [{"op": "append", "table": "notes", "rows": [{"text": "two"}]}]}
    for site in ("cross-site", "same-site", "none", ""):
        assert browser("POST", "/v1/lakes/demo/commits", change, sec_fetch_site=site).status == 403
    assert browser("POST", "/v1/lakes/demo/commits", change).status == 200
    lake.refresh()
    assert [row["text"] for row in lake.snapshot()["notes"].to_pylist()] == ["one", "two"]


@pytest.mark.parametrize("host", ["evil.example:80", "localhost.evil.example", "192.168.0.7:8080", "[fe80::1]"])
def test_a_private_server_answers_to_names_of_this_machine_alone(private: tuple[Browser, str], host: str) -> None:
    browser, link = private
    assert browser("GET", link, host=host).status == 403
    assert browser("GET", "/v1/lakes", host=host).status == 403
    assert browser("GET", link).status == 303  # the word was not used up


def test_pages_of_other_sites_may_link_and_nothing_else(web: Web) -> None:
    browser = Browser(web.url)
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert browser("GET", "/ui/demo/tables", **link).status == 200
    assert browser("GET", "/ui/demo/tables", **{**link, "sec_fetch_dest": "iframe"}).status == 403
    assert browser("POST", "/v1/lakes/demo/branches", {"name": "x"}, **link).status == 403
    assert browser("GET", "/v1/lakes/demo/tables", sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403


def test_a_key_becomes_a_cookie_that_ends_with_it(lake: quire.Lake, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    file = KeyFile(keys)
    _, secret = file.create("grace", ["read"])
    config = Config(lakes={"demo": LakeConfig(lake.uri)}, port=0, auth=AuthConfig(keys=str(keys)))
    with running(config, RequestLog(lambda _: None)) as server:
        browser = Browser(server.url)
        assert data_of(browser("GET", "/ui/demo/tables"))["problem"]["status"] == 401
        assert browser("POST", "/ui/session", authorization="Bearer qk_wrong_wrong").status == 401
        assert browser("POST", "/ui/session", authorization=f"Bearer {secret}").json == {"actor": "grace"}
        shown = data_of(browser("GET", "/ui/demo/tables"))
        assert (shown["context"]["actor"], shown["context"]["write"]) == ("grace", False)
        assert browser("POST", "/v1/lakes/demo/tags", {"name": "v9"}).status == 403
        assert browser("DELETE", "/ui/session").status == 204
        assert browser("GET", "/ui/demo/tables.json").status == 401


# -- what pages ask for --------------------------------------------------------------------------------------------


def test_rows_come_by_the_window(web: Web) -> None:
    page = web("GET", "/ui/demo/rows.json?name=people&offset=4").json["data"]
    assert (page["total"], page["offset"], len(page["rows"])) == (11, 4, 7)
    some = web("GET", "/ui/demo/rows.json?name=people&filter=age%20%3C%2024").json["data"]
    assert (some["total"], sorted(row["id"] for row in some["rows"])) == (4, [0, 1, 2, 3])


def test_a_profile_tells_nulls_ends_and_how_values_spread(web: Web) -> None:
    told = web("GET", "/ui/demo/profile.json?name=people").json["data"]
    age = next(column for column in told["columns"] if column["name"] == "age")
    assert (told["of"], age["nulls"], age["least"], age["greatest"], sum(age["bins"])) == (11, 0, 3, 30, 11)


def test_a_wrong_query_says_where(web: Web) -> None:
    said = web("POST", "sql", {"query": "select 1\nfrom people where where"}, status=400).json
    assert (said["line"], said["column"]) == (2, 19)


def test_the_plan_of_a_query_is_told_and_nothing_is_run(web: Web) -> None:
    plan = web("POST", "/ui/demo/plan", {"query": "select count(*) from people where id > 3"}).json["plan"]
    assert "Aggregate" in plan.title()
    assert web("POST", "/ui/demo/plan", {"query": "drop table people"}, status=400).json["kind"] == "invalid-expression"


def test_conditions_come_one_by_one_and_all_hold(web: Web) -> None:
    path = "/ui/demo/rows.json?name=people&filter=age%20%3C%2025%20or%20id%20%3D%209&filter=id%20%3E%201"
    found = web("GET", path).json["data"]
    assert sorted(row["id"] for row in found["rows"]) == [2, 3, 4, 9]
    assert found["total"] == 4


@pytest.fixture
def points(lake: quire.Lake) -> None:
    """A table of places with vectors, of which one has none."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0, 0, 1, 0, 2, 0, 3, 0, 0, 0], pa.float32()), 2)
    column = pa.concat_arrays([vectors.slice(0, 4), pa.nulls(1, vectors.type)])
    day = pa.array([date(2026, 1, n) for n in range(1, 6)])
    texts = pa.array(["near the lake", "a lake", "a road", "the sea", "nowhere"])
    with lake.transaction() as tx:
        tx.create_table("points", pa.table({"day": day, "text": texts, "at": column}), key="day")


@pytest.mark.usefixtures("points")
@pytest.mark.parametrize(
    ("asked", "days"),
    [
        ({"vector": "[3, 0]"}, ["2026-01-04", "2026-01-03", "2026-01-02", "2026-01-01"]),
        ({"like": '{"day": "2026-01-02"}', "filter": "text <> 'a road'"}, ["2026-01-02", "2026-01-01", "2026-01-04"]),
        ({"like": '{"day": "2026-01-01"}', "search": "lake"}, ["2026-01-01", "2026-01-02"]),
    ],
)
def test_rows_are_searched_by_a_vector_by_that_of_a_row_and_by_text(
    web: Web, asked: dict[str, str], days: list[str]
) -> None:
    query = urllib.parse.urlencode({"name": "points", "vector_column": "at", **asked})
    page = web("GET", f"/ui/demo/table.json?{query}").json["data"]
    assert page["vectors"] == ["at"]
    assert page["ranked"]
    assert [row["day"] for row in page["rows"]][: len(days)] == days


@pytest.mark.usefixtures("points")
@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"like": '{"day": "2026-01-05"}'}, 404),
        ({"like": '{"day": "2030-01-01"}'}, 404),
        ({"like": '{"text": "a road"}'}, 400),
        ({"like": "7"}, 400),
        ({"like": '{"day": "2026-01-01"}', "vector_column": "text"}, 400),
        ({"vector": "near"}, 400),
        ({"vector": "[1, 2, 3]"}, 400),
        ({"filter": "day >"}, 400),
    ],
)
def test_a_search_that_does_not_fit_says_why(web: Web, asked: dict[str, str], status: int) -> None:
    query = urllib.parse.urlencode({"name": "points", **asked})
    said = web("GET", f"/ui/demo/rows.json?{query}", status=status).json
    assert said["next"]


def test_upkeep_tells_who_keeps_files_from_cleanup(web: Web, lake: quire.Lake) -> None:
    with lake.at(commit="1.0").lease(60) as lease:
        store_of(lake).put(note_key("w"), encode(Note(FORMAT, "w", "grace")))
        told = web("GET", "/ui/demo/upkeep.json").json["data"]
        [held] = told["leases"]
        assert (held["commit"], held["author"], held["branch"]) == (lease.commit, "ada", "main")
        assert held["ends"] > held["renewed"]
        assert [one["author"] for one in told["writers"]] == ["grace"]
        assert told["tags"] == [{"name": "v1", "commit": "1.0"}]


def test_a_link_to_a_query_holds_its_parameters(web: Web) -> None:
    link = urllib.parse.urlencode({"query": "select 1", "params": '{"n": 1}', "lang": "gq"})
    assert data_of(web("GET", f"/ui/demo/sql?{link}"))["page"] == "sql"


def test_what_goes_wrong_within_a_lake_keeps_its_frame(web: Web) -> None:
    said = data_of(web("GET", "/ui/demo/table?name=peopel", status=404))
    assert (said["context"]["lake"], said["context"]["lakes"]) == ("demo", ["demo"])
    assert "Did you mean 'people'?" in said["problem"]["next"]
    assert "lake" not in data_of(web("GET", "/ui/elsewhere/tables", status=404))["context"]
