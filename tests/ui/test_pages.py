"""The pages in a real browser: each is drawn without an error or a foreign request, can be read by everybody, and works
by keys alone. What this file shows belongs to the default tier; all states and screens are in `test_states`."""

from __future__ import annotations

from typing import Any

from tests.ui import snapshots
from tests.ui.conftest import Opened, serving

import quire

PAGES = {
    "home": "/ui/",
    "tables": "/ui/demo/tables",
    "table": "/ui/demo/table?name=documents",
    "commits": "/ui/demo/commits",
    "commit": "/ui/demo/commit?id=3.0",
    "compare": "/ui/demo/compare?a=main&b=trial",
    "conflicts": "/ui/demo/conflicts?source=trial",
    "sql": "/ui/demo/sql?query=select+lang,+count(*)+as+n+from+documents+group+by+lang",
    "graph": "/ui/demo/graph",
    "schema": "/ui/demo/schema",
    "upkeep": "/ui/demo/upkeep",
    "live": "/ui/demo/live",
    "requests": "/ui/demo/requests",
    "request": "/ui/demo/request?number=1",
}
HAS = {
    "home": "demo",
    "tables": "documents",
    "table": "Document 7",
    "commits": "Fix titles and scores",
    "commit": "Fix titles and scores",
    "compare": "4 conflicts",
    "conflicts": "0/4 resolved",
    "sql": "134",
    "graph": "27 of 27 nodes",
    "schema": "WorksAt",
    "upkeep": "Optimize",
    "live": "Waiting for the next commit",
    "requests": "Rescore the documents",
    "request": "It doubles the first ones.",
}
"""A word that each page cannot have without its data."""
READY = {"live": ".chip.done:has-text('live')", "graph": ".sigma[data-settled]", "sql": ".window"}
"""What some pages have only when they are done."""


def test_every_page_shows_its_data_is_told_as_it_was_and_breaks_no_rule_of_wcag(served: str, look: Opened) -> None:
    found: dict[str, list[str]] = {}
    told: list[str] = []
    with look(served) as tab:
        for name, path in PAGES.items():
            page = tab.go(path)
            page.wait_for_function("word => document.body.innerText.includes(word)", arg=HAS[name])
            page.wait_for_selector(READY.get(name, "main"))
            page.wait_for_function("() => !document.querySelector('.wait, .skeleton')")
            told += snapshots.changed(page, name)
            found[name] = tab.violations()
            assert tab.wide() <= 0, name
    assert {name: broken for name, broken in found.items() if broken} == {}
    assert told == [], "\n".join(told)


def keys(page: Any, *names: str) -> None:
    for name in names:
        page.keyboard.press(name)


def test_conflicts_are_resolved_by_keys_from_the_first_page_to_the_merge(
    fresh: tuple[quire.Lake, str], look: Opened
) -> None:
    lake, url = fresh
    with look(url) as tab:
        page = tab.go("/ui/demo/tables")
        keys(page, "g", "r")
        page.wait_for_selector("h1:has-text('Requests')")
        tab.settle()
        keys(page, "j", "Enter")
        page.wait_for_selector("h1:has-text('Rescore the documents')")
        tab.settle()
        page.get_by_role("link", name="Resolve 4 conflicts").focus()
        keys(page, "Enter")
        page.wait_for_selector("text=0/4 resolved")
        page.evaluate("() => document.activeElement.blur()")
        keys(page, "o", "t", "e")
        page.wait_for_selector("dialog[open]")
        assert page.evaluate("() => document.activeElement.tagName") == "INPUT"
        keys(page, "Control+A")
        page.keyboard.type("99.5")
        keys(page, "Enter")
        page.wait_for_selector("text=3/4 resolved")
        assert page.get_by_role("button", name="Merge", exact=True).is_disabled()
        keys(page, "n", "t")
        page.wait_for_selector("text=4/4 resolved")
        page.get_by_role("button", name="Merge", exact=True).focus()
        keys(page, "Enter")
        page.wait_for_selector("dialog[open]")
        keys(page, "Control+A")
        page.keyboard.type("Both scores")
        keys(page, "Enter")
        page.wait_for_selector("h1:has-text('Both scores')")
    lake.refresh()
    rows = {row["id"]: row for row in lake.snapshot()["documents"].scan(filter="id between 0 and 7").to_pylist()}
    assert {id: rows[id]["score"] for id in (1, 2, 3, 4, 5)} == {
        1: 1 / 7 + 1,
        2: 2 / 7 * 2,
        3: 99.5,
        4: 4 / 7 * 2,
        5: 5 / 7 * 2,
    }
    assert rows[1]["title"] == "Document 1!"  # a cell that only one side changed is merged whatever was chosen
    assert lake.show("HEAD").message == "Both scores"
    assert lake.requests.get(1).state == "merged"


def test_one_link_lets_one_browser_in_and_nothing_can_be_changed(demo: quire.Lake, look: Opened) -> None:
    with serving(demo=demo.uri, private=True, read_only=True) as link:
        origin = link.partition("/ui/")[0]
        with look(origin) as tab:
            tab.go(link.removeprefix(origin))
            page = tab.go("/ui/demo/commit?id=3.0")
            assert "word" not in page.url
            assert page.get_by_text("read-only").is_visible()
            assert page.get_by_role("button", name="Revert").count() == 0
            cookie = page.context.cookies()[0]
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        with look(origin) as tab:
            page = tab.go(link.removeprefix(origin))
            assert page.get_by_role("heading", name="This server is private").is_visible()
            assert tab.violations() == []


def test_search_of_everything_finds_by_a_key_and_opens(served: str, look: Opened) -> None:
    with look(served) as tab:
        page = tab.go("/ui/demo/upkeep")
        keys(page, "Control+k")
        page.get_by_role("combobox", name="Search everything").fill("docu")
        page.wait_for_selector("[role=option]:has-text('documents')")
        assert tab.violations() == []
        keys(page, "Enter")
        page.wait_for_selector("h1:has-text('documents')")
        tab.settle()
        page.locator(".window").focus()
        for _ in range(12):
            keys(page, "PageDown")
        page.wait_for_function("() => !document.querySelector('.window .wait')")
        first = page.locator(".window tbody tr").first.get_attribute("aria-rowindex")
        assert int(first or 0) > 100
