"""New ids."""

from __future__ import annotations

import uuid

from quire.graph.load.row_ids import new_ids
from quire.store import clock


def test_new_ids_are_uuids_of_version_7_in_their_order() -> None:
    before = int(clock.now().timestamp() * 1000)
    made = new_ids(10_000).to_pylist()
    after = int(clock.now().timestamp() * 1000) + 10_000 // 4096
    assert made == sorted(set(made))
    for text in made:
        found = uuid.UUID(text)
        assert str(found) == text
        assert (found.version, found.variant) == (7, uuid.RFC_4122)
        assert before <= found.int >> 80 <= after


def test_no_id_is_made_for_no_row() -> None:
    assert new_ids(0).to_pylist() == []
