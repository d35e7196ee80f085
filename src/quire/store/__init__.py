"""Object storage with typed outcomes: the lowest layer of Quire, which knows no ledger and no table format."""

from quire.store.aside import AsideStore
from quire.store.backend import Entry, Follows
from quire.store.conditional_put import Created, Outcome
from quire.store.create_probe import probe
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
from quire.store.reach import External, Reach, is_outside
from quire.store.store import Store, register_scheme
from quire.store.threads import quietly, result_of, run_parallel, submit

__all__ = [
    "AsideStore",
    "Created",
    "Entry",
    "External",
    "Follows",
    "Meter",
    "Outcome",
    "Reach",
    "Store",
    "active_meters",
    "attached",
    "awaited",
    "is_outside",
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
