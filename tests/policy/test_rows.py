"""The condition for rows keeps the rows that Cedar itself allows, asked of each row by itself."""

from __future__ import annotations

import json
from typing import Any

import cedarpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

from quire.filters import Computing, read_filter
from quire.lake.guard.protocol import Who
from quire.policy.document import Document
from quire.policy.rules import Rules, contexts

SCHEMA = pa.schema([("n", pa.int64()), ("small", pa.int8()), ("text", pa.string()), ("flag", pa.bool_())])
WHO = Who.of("ada", ["r"])

numbers = st.sampled_from(["0", "1", "-1", "7", "300", "-9223372036854775808"])
texts = st.sampled_from(['"a"', '"b"', '""', '"it\'s"', "principal.name", "context.branch"])
columns = st.sampled_from(["n", "small", "text", "flag", "absent"])
literals = st.one_of(numbers, texts, st.sampled_from(["true", "false"]))
atoms = st.one_of(
    st.builds("resource has {}".format, columns),
    st.builds("(resource.{} {} {})".format, columns, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), literals),
    st.builds("({} {} resource.{})".format, literals, st.sampled_from(["==", "<", ">="]), columns),
    st.builds("[{}, {}].contains(resource.{})".format, numbers, numbers, columns),
    st.builds("[{}, {}].contains(resource.{})".format, texts, texts, columns),
    st.sampled_from(
        ["resource.flag", "true", "false", 'resource in Table::"t"', 'resource in Table::"u"', "resource is Row",
         "resource is Table", 'resource in Lake::"lake"', 'principal in Role::"r"', 'context.branch == "main"']
    ),
)  # fmt: skip
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("(if {} then {} else {})".format, inner, inner, inner),
    ),
    max_leaves=6,
)
rules = st.lists(
    st.builds(
        "{}(principal, action == Action::\"readRow\", resource) {} {{ {} }};".format,
        st.sampled_from(["permit", "permit", "forbid"]), st.sampled_from(["when", "when", "unless"]), expressions,
    ),
    min_size=1, max_size=3,
)  # fmt: skip
rows = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.sampled_from([None, 0, 1, -1, 7, 2**63 - 1]),
            "small": st.sampled_from([None, 0, 1, 127, -128]),
            "text": st.sampled_from([None, "a", "b", "", "it's", "ada", "main"]),
            "flag": st.sampled_from([None, True, False]),
        }
    ),
    min_size=1,
    max_size=8,
)


def allowed_by_cedar(text: str, row: dict[str, Any]) -> bool:
    """What Cedar says of one row; a forbid that fails denies it."""
    chain = [{"type": "Table", "id": "t"}, {"type": "Lake", "id": "lake"}]
    entities = [
        {
            "uid": {"type": "Row", "id": "1"},
            "attrs": {n: v for n, v in row.items() if v is not None},
            "parents": chain[:1],
        },
        {"uid": chain[0], "attrs": {}, "parents": chain[1:]},
        {"uid": chain[1], "attrs": {}, "parents": []},
        {"uid": {"type": "Actor", "id": "ada"}, "attrs": {"name": "ada"}, "parents": [{"type": "Role", "id": "r"}]},
        {"uid": {"type": "Role", "id": "r"}, "attrs": {}, "parents": []},
    ]
    asked = {"principal": 'Actor::"ada"', "action": 'Action::"readRow"', "resource": 'Row::"1"'}
    found = cedarpy.is_authorized({**asked, "context": contexts({"via": "library"})}, text, json.dumps(entities))
    parsed = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
    forbids = [id for id, rule in parsed.items() if rule["effect"] == "forbid"]
    failed = any(f"`{id}`" in error for id in forbids for error in found.diagnostics.errors)
    return bool(found.allowed) and not failed


def kept(text: str, table: pa.Table) -> list[bool]:
    """What the condition says of the same rows."""
    sight = Rules(Document(text), b"").sight(WHO, "main", "t", dict(zip(SCHEMA.names, SCHEMA.types, strict=True)))
    if sight.rows is None:
        return [True] * table.num_rows
    with Computing() as computing:
        return list(computing.mask(read_filter(sight.rows, SCHEMA).whole, table).to_pylist())


@settings(max_examples=budget(150, full=3000), deadline=None)
@given(rules, rows)
def test_the_condition_keeps_what_cedar_allows(policy: list[str], some: list[dict[str, Any]]) -> None:
    text = "\n".join(policy)
    assert kept(text, pa.Table.from_pylist(some, SCHEMA)) == [allowed_by_cedar(text, row) for row in some]


@pytest.mark.parametrize(
    "policy",
    [
        'permit(principal, action, resource) when { resource.text like "a*" };',
        "permit(principal, action, resource) when { resource.n + 1 > 0 };",
        "permit(principal, action, resource) when { resource.n == resource.small };",
        'permit(principal, action, resource); forbid(principal, action, resource) when { resource.text like "z*" };',
        'permit(principal, action, resource) when { resource == Row::"1" };',
        'permit(principal, action == Action::"read", resource);',
    ],
)
def test_what_cannot_be_told_of_rows_denies_them(policy: str) -> None:
    table = pa.Table.from_pylist([{"n": 1, "small": 1, "text": "a", "flag": True}], SCHEMA)
    assert kept(policy, table) == [False]


def test_a_rule_for_everything_takes_no_condition() -> None:
    columns = {"n": pa.int64()}
    assert Rules(Document("permit(principal, action, resource);"), b"").sight(WHO, "main", "t", columns).whole
