"""Lakes that schemas are applied to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import quire


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    """An empty lake on local disk."""
    with quire.create(str(tmp_path / "lake"), backfill=False, author="ada") as made:
        yield made
