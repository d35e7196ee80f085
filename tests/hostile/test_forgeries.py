"""Hostile values in every place of every stored object: an orderly answer or a typed error, and nothing else."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile.conftest import EVERY, FUZZ, quick
from tests.hostile.lakes import KINDS
from tests.hostile.specimen import Specimen
from tests.laboratory.hostile import NUMBERS, STRINGS, forge, forgeries

BY_DEFAULT = 1
"""Of hundreds of forgeries of an object, how many are tried when nobody asked for a long run."""


Objects = dict[str, tuple[Specimen, str]]


@pytest.mark.parametrize("kind", EVERY)
def test_no_operation_goes_wrong_on_a_forged_value(objects: Objects, kind: str) -> None:
    specimen, key = objects[kind]
    body = specimen.read(key)
    tried = list(forgeries(body))
    chooser = random.Random(FUZZ or kind)
    chosen = chooser.sample(tried, min(FUZZ or BY_DEFAULT, len(tried)))
    found = {change.name: specimen.trial({key: change.body}, right=False) for change in chosen}
    assert {name: problems for name, problems in found.items() if problems} == {}


@quick
@given(data=st.data(), kind=st.sampled_from(KINDS), other=st.sampled_from(KINDS))
def test_no_operation_goes_wrong_on_several_forged_values(
    specimen: Specimen, data: st.DataObject, kind: str, other: str
) -> None:
    """Values that are hostile together may pass where each alone is caught."""
    changes: dict[str, bytes | None] = {}
    for object_kind in {kind, other}:
        key = specimen.objects()[object_kind]
        body = specimen.read(key)
        places = data.draw(st.lists(st.sampled_from(_leaves(json.loads(body))), min_size=1, max_size=4, unique=True))
        values = st.sampled_from(NUMBERS) | st.sampled_from(STRINGS) | st.none() | st.text(max_size=40) | st.integers()
        changes[key] = forge(body, {place: data.draw(values, place) for place in places})
    assert specimen.trial(changes, right=False) == []


def _leaves(node: object, path: str = "") -> list[str]:
    """Dotted paths of the values in a document that are neither objects nor lists."""
    if isinstance(node, dict):
        return [leaf for name in node for leaf in _leaves(node[name], f"{path}.{name}" if path else str(name))]
    if isinstance(node, list):
        return [leaf for n, inner in enumerate(node[:2]) for leaf in _leaves(inner, f"{path}.{n}")]
    return [path]


def test_every_object_of_a_ledger_is_of_a_kind_that_is_tried(specimen: Specimen, cleaned: Specimen) -> None:
    """A new kind of stored object fails here until it is maltreated like the others: give it a place in KINDS."""
    tried, stored = set(), set()
    for lake, keys in ((specimen, specimen.objects()), (cleaned, cleaned.cleaned_objects())):
        tried |= {_shape(key) for key in keys.values()}
        files = [p.relative_to(lake.sound).as_posix() for p in lake.sound.glob("_quire/**/*") if p.is_file()]
        stored |= {_shape(key) for key in files}
    assert stored == tried


def _shape(key: str) -> str:
    """A key without what differs between objects of one kind."""
    parts = key.split("/")
    if parts[1] == "log":
        return "log/" + ("slot" if parts[-1].isdigit() else parts[-1].partition("-")[0])
    return parts[1].partition("-")[0] if len(parts) == 2 else parts[1]
