"""Table formats behind one small protocol: stage, rebase, open a pin, backfill."""

from quire.formats.protocol import (
    AlreadyAdopted,
    Foreign,
    Head,
    IndexSpec,
    Overlap,
    Promotion,
    Search,
    Staged,
    TableFormat,
    View,
    Work,
)

__all__ = [
    "AlreadyAdopted",
    "Foreign",
    "Head",
    "IndexSpec",
    "Overlap",
    "Promotion",
    "Search",
    "Staged",
    "TableFormat",
    "View",
    "Work",
]
