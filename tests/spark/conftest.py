from __future__ import annotations

from pathlib import Path

import pytest

import quire


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake")
