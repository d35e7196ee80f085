from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from tests.budget import budget
from tests.hostile.lakes import CLEANED, KINDS, build, clean
from tests.hostile.specimen import Specimen

FUZZ = int(os.environ.get("QUIRE_FUZZ", "0"))
"""How many random cases each fuzzed test tries; 0 for the few of the default suite. `make fuzz` sets it."""

quick = settings(
    max_examples=FUZZ or budget(4, full=12),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="session")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    """A sound lake that has everything, and what it answers."""
    os.environ.setdefault("LANCE_LOG", "error")
    place = tmp_path_factory.mktemp("hostile")
    return Specimen(place / "sound", place / "scratch", build(place / "sound"), thorough=bool(FUZZ))


@pytest.fixture(scope="session")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    """The same after cleanup: with floors and tombstones."""
    os.environ.setdefault("LANCE_LOG", "error")
    place = tmp_path_factory.mktemp("cleaned")
    return Specimen(place / "sound", place / "scratch", clean(place / "sound"), thorough=bool(FUZZ))


EVERY = (*KINDS, *CLEANED)


@pytest.fixture(scope="session")
def objects(specimen: Specimen, cleaned: Specimen) -> dict[str, tuple[Specimen, str]]:
    """One stored object of every kind, and the lake that it lies in."""
    found = {kind: (specimen, key) for kind, key in specimen.objects().items()}
    return found | {kind: (cleaned, key) for kind, key in cleaned.cleaned_objects().items()}
