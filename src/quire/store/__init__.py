"""Object storage with typed outcomes: the lowest layer of Quire, which knows no ledger and no table format."""

from quire.store.backend import Entry
from quire.store.meter import Meter, attached, awaited, metering, record_external, totals
from quire.store.outcome import Created, Outcome
from quire.store.parallel import run_parallel, submit
from quire.store.probing import probe
from quire.store.store import Store

__all__ = [
    "Created",
    "Entry",
    "Meter",
    "Outcome",
    "Store",
    "attached",
    "awaited",
    "metering",
    "probe",
    "record_external",
    "run_parallel",
    "submit",
    "totals",
]
