"""The pictures of the guide to the pages, from running pages of a lake made for them: `make screenshots`."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import quire
from quire.server.config import Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE: Any = {"width": 1280, "height": 760}
SCHEMA = """
node Author { name: String @key  city: String? }
node Paper { title: String @key  year: I32?  field: String? }
node Venue { name: String @key }
edge Wrote: Author -> Paper { @unique(src, dst) }
edge Cites: Paper -> Paper { @unique(src, dst) }
edge AppearedIn: Paper -> Venue { since: Date?  @unique(src, dst) }
"""
FIELDS = ("databases", "graphs", "storage", "retrieval", "systems")


def lake(path: Path) -> quire.Lake:
    """Papers and their reviews over some nights, a branch that scores them anew, and a graph."""
    chance = random.Random(7)
    made = quire.create(path, author="ada")
    papers = [
        {
            "id": n,
            "title": f"On {chance.choice(FIELDS)}, part {n}",
            "field": chance.choice(FIELDS),
            "score": round(chance.betavariate(4, 2), 3),
            "pages": int(chance.gauss(14, 4)),
            "published": date(2015 + n % 11, 1 + n % 12, 1 + n % 28),
        }
        for n in range(12_000)
    ]
    with made.transaction("Load the archive") as tx:
        tx.create_table("papers", papers, key="id")
        tx.create_table("reviews", [{"paper": n % 12_000, "stars": chance.randint(1, 5)} for n in range(30_000)])
    made.tag("v1", message="the archive")
    for night in range(5):
        with made.transaction(f"Nightly ingest {night + 1}") as tx:
            rows = [{**papers[night * 40 + n], "score": round(chance.random(), 3)} for n in range(40)]
            tx["papers"].upsert(rows)
            tx["reviews"].append([{"paper": n, "stars": 4} for n in range(200 * (night + 1))])
    made.create_branch("rescore")
    with quire.open(path, author="grace").branch("rescore").transaction("Score with the new model") as tx:
        tx["papers"].update({"score": "score * 0.9", "field": "upper(field)"}, where="id < 8")
    with quire.open(path, author="linus").transaction("Correct some scores") as tx:
        tx["papers"].update({"score": "0.5"}, where="id < 6")
    _fill(made, chance)
    made.requests.open("rescore", "Score papers with the new model", "Better on the last three years.", into="main")
    made.flush()
    return quire.open(path)


def _fill(made: quire.Lake, chance: random.Random) -> None:
    graph = quire.Graph(made)
    graph.apply_schema(SCHEMA)
    venues, authors = [f"Venue {c}" for c in "ABCDEF"], [f"Author {n}" for n in range(60)]
    titles = [f"{chance.choice(FIELDS).title()} {n}" for n in range(110)]
    rows: list[dict[str, Any]] = [{"type": "Venue", "data": {"name": name}} for name in venues]
    rows += [{"type": "Author", "data": {"name": name, "city": "Oslo"}} for name in authors]
    rows += [{"type": "Paper", "data": {"title": t, "year": 2020, "field": t.split()[0]}} for t in titles]
    edges: set[tuple[str, str, str]] = set()
    for n, title in enumerate(titles):
        edges.add(("AppearedIn", title, venues[n % 6]))
        edges |= {("Wrote", author, title) for author in chance.sample(authors[(n % 6) * 10 : (n % 6) * 10 + 10], 2)}
        if n:
            edges |= {("Cites", title, titles[chance.randrange(n)]) for _ in range(2)}
    rows += [{"edge": kind, "from": a, "to": b, "data": {}} for kind, a, b in sorted(edges)]
    graph.load(rows, mode="append")


def _resolved(page: Any) -> None:
    for key in ("o", "t", "o"):
        page.keyboard.press(key)


def _charted(page: Any) -> None:
    page.wait_for_selector("text=5 rows")
    page.get_by_role("tab", name="Chart").click()


def _chosen(page: Any) -> None:
    page.wait_for_selector("[data-settled]", timeout=20_000)
    page.get_by_role("combobox", name="Find a node").fill("Venue A")
    page.wait_for_selector("[role=option]:has-text('Venue A')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".side .facts")


def pictures() -> Iterator[tuple[str, Any, str, Callable[[Any], None] | None]]:
    """Name, scheme, address, and what is done before the picture is taken."""
    query = "select field, round(avg(score), 3) as score, count(*) as papers\nfrom papers\ngroup by field\norder by 2"
    from urllib.parse import quote

    yield "tables", "light", "tables", None
    yield "table", "light", "table?name=papers", None
    yield "commits", "dark", "commits", None
    yield "commit", "light", "commit?id=7.0", None
    yield "conflicts", "light", "conflicts?source=rescore", _resolved
    yield "graph", "dark", "graph", _chosen
    yield "sql", "light", f"sql?query={quote(query)}", _charted


def main() -> None:
    """Make all of them."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        made = lake(Path(folder) / "papers")
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        config = Config(lakes={"papers": LakeConfig(made.uri)}, port=0)
        with running(config, RequestLog(lambda line: None)) as server:
            for name, scheme, address, act in pictures():
                context = browser.new_context(color_scheme=scheme, viewport=SIZE, reduced_motion="reduce")
                page = context.new_page()
                page.goto(f"{server.url}/ui/papers/{address}")
                page.wait_for_selector("html[data-ready]")
                page.wait_for_timeout(800)
                if act is not None:
                    act(page)
                page.wait_for_timeout(1_200)
                page.screenshot(path=FOLDER / f"ui-{name}.png")
                context.close()
                print(f"docs/images/ui-{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
