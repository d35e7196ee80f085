"""The description of the server as OpenAPI 3.1, from the table of routes. `openapi.json` beside this file is written by

python -m quire.server.openapi
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

import quire
from quire.server.answers import Problem
from quire.server.calls import JSON
from quire.server.problems import MEDIA_TYPE, TITLES
from quire.server.route_table import ROUTES
from quire.server.routes import Route
from quire.server.row_formats import ARROW

FILE = "openapi.json"
REF = "#/components/schemas/{name}"
PROBLEM = {"$ref": REF.format(name="Problem")}


def described() -> dict[str, Any]:
    """The whole document."""
    kinds = [t for route in ROUTES for t in (route.query, route.body, route.answer) if t is not None]
    types = list(dict.fromkeys([Problem, *kinds]))
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    known = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Quire", "version": quire.__version__, "description": "Lakes over HTTP."},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Problem": {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": PROBLEM}}}},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def committed() -> bytes:
    """The document as it is part of the package."""
    return resources.files("quire.server").joinpath(FILE).read_bytes()


def _operation(route: Route, known: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", route.path)
    parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
    if route.query is not None:
        parameters += _parameters(components[route.query.__name__])
    said: dict[str, Any] = {"operationId": route.name, "summary": route.summary, "parameters": parameters}
    if route.body is not None:
        content = {JSON: {"schema": known[route.body]}}
        if route.multipart:
            whole = {"type": "object", "properties": {"commit": known[route.body]}}
            rows = {"contentType": ARROW}
            content["multipart/form-data"] = {"schema": whole, "encoding": {"rows": rows}}
        said["requestBody"] = {"required": True, "content": content}
    answer: dict[str, Any] = {"description": TITLES.get(route.status, "The answer.")}
    content = {JSON: {"schema": known[route.answer]}} if route.answer is not None else {}
    content |= {media: {"schema": {"type": "string"}} for media in route.media}
    if content:
        answer["content"] = content
    said["responses"] = {str(route.status): answer, "default": {"$ref": "#/components/responses/Problem"}}
    if route.query is not None and "at" in route.query.__struct_fields__:
        said["responses"]["304"] = {"description": "The client has it already."}
    if route.name == "agents":
        of_mcp = {
            "description": "A problem, or what MCP has for it.",
            "content": {MEDIA_TYPE: {"schema": PROBLEM}, JSON: {}},
        }
        said["responses"]["default"] = of_mcp
    if route.access != "public":
        said["security"] = [{"token": []}, {}]
    return said


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": kind}
        for name, kind in schema["properties"].items()
    ]


def written() -> bytes:
    """The document as the file has it."""
    return msgspec.json.format(msgspec.json.encode(described(), order="sorted"), indent=2) + b"\n"


if __name__ == "__main__":
    Path(__file__).with_name(FILE).write_bytes(written())
