"""A request of HTTP as a request of the specification: identifiers, parameters of the address, the body."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import lance_namespace as spec
from pydantic import ValidationError

from quire.errors import InvalidInput
from quire.lance.operations import AUTHOR
from quire.server.auth.actors import ANYBODY, Actor
from quire.server.lance.spec_operations import SpecOperation

DELIMITER = "$"
Query = Mapping[str, Sequence[str]]


def identifier(text: str, delimiter: str) -> list[str]:
    """The parts of an identifier in an address; the delimiter alone names the root."""
    if not delimiter:
        raise InvalidInput("The delimiter is empty.", next=f"Leave it out; it is {DELIMITER!r} then.")
    return [] if text == delimiter else text.split(delimiter)


def request_of(
    operation: SpecOperation,
    path: Mapping[str, str],
    query: Query,
    body: bytes,
    actor: Actor,
    *,
    detailed: bool = False,
) -> Any:
    """The request that an operation is called with."""
    model: Any = getattr(spec, operation.model)
    given = _object(body)
    if operation.name == "query_table":
        _plainly_asked(given)
    if operation.name == "update_table_schema_metadata" and "metadata" not in given:
        given = {"metadata": given}
    if "id" in path:
        delimiter = next(iter(query.get("delimiter", ())), DELIMITER)
        named = identifier(path["id"], delimiter)
        if given.get("id") not in (None, named) and not _is_joined(given["id"], path["id"], delimiter):
            raise InvalidInput(
                "The body names another object than the address does.", next="Leave `id` out of the body.", field="id"
            )
        given["id"] = named
    if "index_name" in path:
        given["index_name"] = path["index_name"]
    for name, field in model.model_fields.items():
        if name in query and given.get(name) is None:
            given[name] = _value(name, str(field.annotation), query[name])
    if operation.name == "describe_table" and detailed:
        given["load_detailed_metadata"] = True
    if actor is not ANYBODY and isinstance(given.get("context"), dict):
        given["context"] = {k: v for k, v in given["context"].items() if k != AUTHOR}  # who writes, the token says
    try:
        found = model.from_dict(given)
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput(
            f"The body does not fit {operation.name}: {_said(error)}.", next="Send what the specification says."
        ) from None
    return found


def _is_joined(given: Any, address: str, delimiter: str) -> bool:
    """Whether a body names what the address does, with its parts in one: DuckDB's extension sends `["search$docs"]`."""
    return isinstance(given, list) and all(isinstance(part, str) for part in given) and delimiter.join(given) == address


def _plainly_asked(given: dict[str, Any]) -> None:
    """LanceDB's remote client sends vectors, columns and texts as they are, where the specification has objects."""
    vector, columns, text = given.get("vector"), given.get("columns"), given.get("full_text_query")
    if vector is None or isinstance(vector, list):
        values: list[Any] = vector or []
        many = bool(values) and isinstance(values[0], list)
        given["vector"] = {"multi_vector": values} if many else {"single_vector": values}
    if isinstance(columns, list):
        given["columns"] = {"column_names": columns} if columns else None
    elif isinstance(columns, dict) and not columns.keys() & {"column_names", "column_aliases"}:
        plain = all(name == expression for name, expression in columns.items())
        given["columns"] = {"column_names": list(columns)} if plain else {"column_aliases": columns}
    if isinstance(text, dict) and "query" in text:
        given["full_text_query"] = (
            {"string_query": text} if isinstance(text["query"], str) else {"structured_query": text}
        )
    if given.get("k") is None:
        given["k"] = 0


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip() or body.strip() == b"null":
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The body is not JSON: {error}.", next="Send one JSON object.") from None
    if not isinstance(found, dict):
        raise InvalidInput("The body is no object of JSON.", next="Send one JSON object.")
    return found


def _value(name: str, annotation: str, texts: Sequence[str]) -> Any:
    """A parameter of the address as its field has it."""
    annotation = annotation.lower()
    if "dict[" in annotation:
        return _object(texts[-1].encode())
    if "list[" in annotation:
        return list(texts)
    text = texts[-1]
    if "bool" in annotation:
        if text.lower() not in ("true", "false"):
            raise InvalidInput(f"{name} is true or false, not {text[:40]!r}.", next="Correct it.", field=name)
        return text.lower() == "true"
    if "int" in annotation:
        if not text.lstrip("-").isdecimal() or len(text) > 18:
            raise InvalidInput(f"{name} is a number, not {text[:40]!r}.", next="Correct it.", field=name)
        return int(text)
    return text


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])[:400]
    return f"{type(error).__name__}: {error}"[:200]
