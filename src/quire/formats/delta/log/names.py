"""Where the files of a Delta table lie, and how a pin names one of its versions.

7           <table>/_delta_log/00000000000000000007.json          a commit that was made in its place
s7.<uuid>   <table>/_delta_log/_staged_commits/0…07.<uuid>.json   a staged commit of a `catalogManaged` table
c7.<uuid>   <table>/_delta_log/_commits/0…07.<uuid>.json          the same of a `managedCommit` table
u7.<uuid>   such a file that a client has named; what it follows: <table>/_quire/u7.<uuid>.follows
r7.<uuid>   <table>/_quire/r7.<uuid>.state                        a table as it was when it was registered
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from quire.errors import FormatError

LOG = "_delta_log"
STATES = "_quire"
"""Delta clients do not look into folders whose names begin so."""
FOLDERS = {"s": f"{LOG}/_staged_commits", "u": f"{LOG}/_staged_commits", "c": f"{LOG}/_commits"}
_TEXT = re.compile(r"(?:([scru])(\d{1,18})\.([0-9a-f-]{36})|(\d{1,18}))")
_STAGED = re.compile(r"(\d{20})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.")
_PUBLISHED = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class Name:
    """One version of a table, as pins name it."""

    version: int
    kind: str = ""
    id: str = ""

    @staticmethod
    def parse(text: str) -> Name:
        found = _TEXT.fullmatch(text)
        if found is None:
            raise FormatError(f"{text!r} names no version of a Delta table.", next="Restore the record from a copy.")
        return Name(int(found[4])) if found[4] else Name(int(found[2]), found[1], found[3])

    @property
    def text(self) -> str:
        return f"{self.kind}{self.version}.{self.id}" if self.kind else str(self.version)

    @property
    def path(self) -> str:
        """The file that holds the commit, or the state of a registered table, below the table."""
        if self.kind == "r":
            return state_path(self)
        return f"{FOLDERS[self.kind]}/{self.version:020d}.{self.id}.json" if self.kind else published(self.version)

    def __str__(self) -> str:
        return self.text


def published(version: int) -> str:
    """The file in which every Delta client looks for a version."""
    return f"{LOG}/{version:020d}.json"


def published_version(path: str) -> int | None:
    """The version of such a file."""
    found = _PUBLISHED.fullmatch(path.removeprefix(f"{LOG}/"))
    return int(found[1]) if found else None


def checkpoint_version(path: str) -> int | None:
    """The version of which a file is a checkpoint, or a part of one."""
    found = _CHECKPOINT.match(path.removeprefix(f"{LOG}/"))
    return int(found[1]) if found else None


def state_path(name: Name) -> str:
    """The file with the whole state after a version, which readers of pins begin with."""
    return f"{STATES}/{name.text}.state"


def follows_path(name: Name) -> str:
    """Where it is told what a commit of a client follows."""
    return f"{STATES}/{name.text}.follows"


def staged_by_client(file: str) -> Name | None:
    """The version that a client has staged under this name, without its folder."""
    found = _STAGED.fullmatch(file)
    return None if found is None else Name(int(found[1]), "u", found[2])
