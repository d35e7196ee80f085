"""Which page is at which address. Every page has a twin in JSON beside it, which its first answer holds."""

from __future__ import annotations

from collections.abc import Callable

from quire.server.calls import Answer, Call
from quire.server.routes import Access, Route
from quire.server.ui import assets, shell, signing_in
from quire.server.ui.reading import At, Data, state_of, twin
from quire.server.ui.twins import console, graph, history, home, merging, tables, upkeep

UI = "/ui"
LAKE = "/ui/{lake}"


def page(
    name: str, title: str, data: Data, query: type | None, *, path: str = "", access: Access = "read"
) -> tuple[Route, Route]:
    """A page, and its twin."""
    address = path or f"{LAKE}/{name}"

    def handler(call: Call) -> Answer:
        shown = call.path.get("lake", "")
        return shell.document(call.address, state_of(name, data, call), title=f"{title} · {shown}" if shown else title)

    beside = f"{address}.json" if not path else f"{path}/{name}.json"
    return (
        Route("GET", address, f"page-{name}", f"Show the page {name}.", handler, access, query=query, page=True),
        Route(
            "GET", beside, f"twin-{name}", f"Tell what the page {name} shows.", twin(name, data), access, query=query
        ),
    )


def part(name: str, data: Data, query: type | None) -> Route:
    """What a page asks for later on."""
    return Route(
        "GET", f"{LAKE}/{name}.json", f"part-{name}", f"Tell what a page shows: {name}.", twin(name, data), query=query
    )


def _to(where: Callable[[Call], str]) -> Callable[[Call], Answer]:
    return lambda call: Answer(status=307, body=b"", headers={"location": where(call)})


def _root(call: Call) -> Answer:
    if not call.address.endswith("/"):
        return Answer(status=307, body=b"", headers={"location": "ui/"})
    return shell.document(call.address, state_of("home", home.home, call), title="Lakes")


def _lake(call: Call) -> str:
    last = call.address.rpartition("/")[2]
    return f"{last}/tables" if last else "tables"


STATIC = f"{UI}/static/{{digest}}"

ROUTES = (
    Route("GET", UI, "page-home", "Show the lakes.", _root, "any", query=home.Nothing, page=True),
    Route(
        "GET", f"{UI}/home.json", "twin-home", "Tell what the page of the lakes shows.", twin("home", home.home), "any",
        query=home.Nothing,
    ),
    Route(
        "GET", f"{UI}/enter", "page-enter", "Come in by a one-time link.", signing_in.enter, "public",
        query=signing_in.Word, page=True,
    ),
    Route("POST", f"{UI}/session", "sign-in", "Sign in with a key.", signing_in.sign_in, "any"),
    Route("DELETE", f"{UI}/session", "sign-out", "Sign out.", signing_in.sign_out, "public", status=204),
    Route("GET", f"{STATIC}/{{file}}", "asset", "Give a file of the pages.", assets.asset, "public"),
    Route("GET", f"{STATIC}/{{folder}}/{{file}}", "asset-in", "Give a file of the pages.", assets.asset, "public"),
    Route("GET", LAKE, "page-lake", "Show a lake.", _to(_lake), page=True),
    *page("tables", "Tables", home.tables, At),
    *page("table", "Table", tables.table, tables.OneTable),
    *page("commits", "Commits", history.commits, history.LogAsked),
    *page("commit", "Commit", history.commit, history.OneCommit),
    *page("compare", "Compare", merging.compare, merging.Sides),
    *page("conflicts", "Conflicts", merging.conflicts, merging.Merged),
    *page("requests", "Requests", merging.requests, merging.State),
    *page("request", "Request", merging.request, merging.Number),
    *page("sql", "SQL", console.console, console.Asked),
    *page("graph", "Graph", graph.graph, graph.Sampled),
    *page("schema", "Schema", graph.schema, At),
    *page("upkeep", "Upkeep", upkeep.upkeep, At),
    *page("live", "Live", upkeep.live, At),
    part("columns", console.columns, console.Names),
    part("find", graph.find, graph.Searched),
    part("around", graph.around, graph.OneNode),
    part("past", graph.past, graph.OneNode),
    part("path", graph.path, graph.Ends),
    Route("POST", f"{LAKE}/plan", "plan-query", "Tell how a query would be run.", console.plan, query=At),
    Route("POST", f"{LAKE}/lint", "lint-query", "Tell what is wrong with graph queries.", console.lint, query=At),
    Route("POST", f"{LAKE}/merge", "merge-resolved", "Merge with resolutions.", merging.merge, "write"),
    Route(
        "POST", f"{LAKE}/keep", "keep-resolutions", "Keep resolutions with a request.", merging.keep, "write",
        audited=True,
    ),
    part("search", home.search, home.Search),
    part("names", home.names, At),
    part("rows", tables.rows, tables.OneTable),
    part("profile", tables.profile, tables.OneTable),
    part("versions", tables.versions, tables.Versions),
    part("row", tables.row, tables.OneRow),
    part("changed", history.changed, history.Changed),
)  # fmt: skip
"""Pages, their twins, and the files that a browser needs for them. They are no part of `openapi.json`."""
