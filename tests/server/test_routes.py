"""The table of routes, and what is written down of it."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from quire.errors import InvalidInput, NotFound
from quire.server.openapi import committed, described, written
from quire.server.problems import HttpRefusal
from quire.server.route_table import ROUTES
from quire.server.routes import Routes


def test_the_committed_description_is_fresh() -> None:
    assert committed() == written(), "run python -m quire.server.openapi"


def test_the_description_is_openapi_and_whole() -> None:
    said = described()
    assert said["openapi"] == "3.1.0"
    assert {(m.upper(), p) for p, one in said["paths"].items() for m in one} == {(r.method, r.path) for r in ROUTES}
    references = set(re.findall(r'"#/components/(\w+)/([^"]+)"', json.dumps(said)))
    assert {(kind, name) for kind, name in references if name not in said["components"][kind]} == set()
    names = [operation["operationId"] for one in said["paths"].values() for operation in one.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_a_route_says_what_it_takes_and_gives(route: object) -> None:
    from quire.server.routes import Route

    assert isinstance(route, Route)
    assert route.summary.endswith(".")
    assert route.answer is not None or route.media or route.status == 204 or route.name == "openapi"
    assert route.access in ("public", "any") or "{lake}" in route.path
    for kind in (route.query, route.body):
        assert kind is None or msgspec.inspect.type_info(kind)


def test_a_name_is_one_segment_whatever_is_in_it() -> None:
    routes = Routes(ROUTES)
    found, names = routes.find("GET", b"/v1/lakes/demo/tables/a%2Fb%3A%20c")
    assert (found.name, names) == ("table", {"lake": "demo", "table": "a/b: c"})


@pytest.mark.parametrize("path", [b"/", b"/v1", b"/v1/lakes/demo/tables//rows", b"/v1/lakes//tables", b"*", b""])
def test_there_is_nothing_elsewhere(path: bytes) -> None:
    with pytest.raises(NotFound):
        Routes(ROUTES).find("GET", path)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Routes(ROUTES).find("GET", b"/v1/lakes/\xff/tables")


def test_another_method_is_told_which_there_are() -> None:
    with pytest.raises(HttpRefusal) as caught:
        Routes(ROUTES).find("PATCH", b"/v1/lakes/demo/commits")
    assert caught.value.headers == {"allow": "GET, POST"}
