"""What `openapi.json` says of every address is what the server does: asked with what fits it and with what does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.budget import SEED, budget

import quire
from quire.server.config import Config, LakeConfig
from quire.server.openapi import committed
from quire.server.request_log import RequestLog
from quire.server.serve import running

DOCUMENT = json.loads(committed())
OPERATIONS = [(method.upper(), path) for path, found in DOCUMENT["paths"].items() for method in found]
EXAMPLES = budget(4, full=60)


class World:
    """A server on a lake with a table, a graph, a branch and a tag, and its description as schemathesis reads it."""

    def __init__(self, url: str, lines: list[dict[str, Any]]) -> None:
        import schemathesis

        self.url, self.lines = url, lines
        self.schema = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    where = tmp_path_factory.mktemp("openapi") / "lake"
    lake = quire.create(where, backfill=False, author="ada")
    lake.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
    quire.Graph(lake).apply_schema("node Person { name: String @key }")
    lake.tag("v1")
    lake.create_branch("trial")
    lake.close()
    lines: list[dict[str, Any]] = []
    log = RequestLog(lambda line: lines.append(json.loads(line)))
    with running(Config(lakes={"demo": LakeConfig(str(where))}, port=0), log, check_answers=True) as server:
        yield World(server.url, lines)


@pytest.mark.sampled(25)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_an_address_does_what_is_said_of_it(method: str, path: str, world: World) -> None:
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    operation, said = world.schema[path][method], DOCUMENT["paths"][path][method.lower()]
    takes = any(one["in"] == "query" for one in said["parameters"]) or "requestBody" in said
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE] if takes and path != "/mcp/{lake}" else [None]

    for mode in modes:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode or GenerationMode.POSITIVE))
        def ask(case: Any) -> None:
            if "lake" in case.path_parameters:
                case.path_parameters["lake"] = "demo"
            if isinstance(case.query, dict) and "wait" in case.query:
                case.query["wait"] = "0"
            answer = case.call(base_url=world.url, timeout=60)
            # Names, filters and queries have grammars that a description of types cannot tell.
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])

        ask()
    assert [line for line in world.lines if line["event"] == "failure"] == [], SEED
