"""Object storage with typed outcomes: the lowest layer of Quire, which knows no ledger and no table format."""

from quire.store.backend import Entry
from quire.store.meter import (
    Meter,
    active_meters,
    attached,
    awaited,
    metering,
    off_the_path,
    on_behalf,
    phase,
    record_external,
    record_retry,
    totals,
)
from quire.store.outcome import Created, Outcome
from quire.store.parallel import quietly, result_of, run_parallel, submit
from quire.store.probing import probe
from quire.store.store import Store, register_scheme

__all__ = [
    "Created",
    "Entry",
    "Meter",
    "Outcome",
    "Store",
    "active_meters",
    "attached",
    "awaited",
    "metering",
    "off_the_path",
    "on_behalf",
    "phase",
    "probe",
    "quietly",
    "record_external",
    "record_retry",
    "register_scheme",
    "result_of",
    "run_parallel",
    "submit",
    "totals",
]
