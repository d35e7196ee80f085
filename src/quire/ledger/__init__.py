"""The append-only log that decides what is visible. It knows no table format."""

from quire.ledger.history import History, hint_key, parse_hint, read_hint, write_hint
from quire.ledger.log import LogLedger, slot_key
from quire.ledger.protocol import Appended, Ledger
from quire.ledger.records import (
    FORMAT,
    Change,
    Commit,
    FormatFile,
    Hint,
    Keys,
    OpaqueToken,
    Pin,
    Point,
    Read,
    Record,
    StreamToken,
    TableInfo,
    decode,
    encode,
    new_id,
)
from quire.ledger.refs import MAIN, Line, Ref, Refs, Segment, new_ref
from quire.ledger.state import State, TableState, fold, genesis

__all__ = [
    "FORMAT",
    "MAIN",
    "Appended",
    "Change",
    "Commit",
    "FormatFile",
    "Hint",
    "History",
    "Keys",
    "Ledger",
    "Line",
    "LogLedger",
    "OpaqueToken",
    "Pin",
    "Point",
    "Read",
    "Record",
    "Ref",
    "Refs",
    "Segment",
    "State",
    "StreamToken",
    "TableInfo",
    "TableState",
    "decode",
    "encode",
    "fold",
    "genesis",
    "hint_key",
    "new_id",
    "new_ref",
    "parse_hint",
    "read_hint",
    "slot_key",
    "write_hint",
]
