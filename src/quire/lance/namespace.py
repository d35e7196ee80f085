"""A lake as a Lance namespace, for clients in this process."""

from __future__ import annotations

import os
from typing import Any

import lance_namespace as spec

from quire.errors import InvalidInput
from quire.lake import Lake, open
from quire.lance.branches import BranchNamespace
from quire.lance.catalog import CatalogOperations
from quire.lance.refusals import RefusedOperations
from quire.lance.structure import StructureOperations
from quire.lance.transactions import TransactionNamespace
from quire.lance.versions import VersionOperations
from quire.lance.views import CommitNamespace


class Namespace(CatalogOperations, VersionOperations, StructureOperations, RefusedOperations, spec.LanceNamespace):
    """A lake for unmodified Lance clients: each of their writes is a commit of the lake.

    `lance.dataset(namespace_client=…, table_id=[…])`, `lance.write_dataset` and
    `lancedb.connect_namespace("quire.lance.Namespace", {"lake": uri})` take it.
    """

    def __init__(self, lake: Lake | str | os.PathLike[str], *, external: str = "", **properties: Any) -> None:
        """`external` are places outside the lake where it may have tables, with commas between them; `allow` for any.

        It is for a lake that is given by its address.
        """
        if properties:
            raise InvalidInput(
                f"A namespace of a lake has no property {sorted(properties)[0]!r}.",
                next="Pass the lake, and external for tables that lie outside of it.",
            )
        super().__init__()
        self.lake = lake if isinstance(lake, Lake) else open(lake, external=_places(external))
        if self.lake.branch_name != "main":
            raise InvalidInput(
                "Clients write versions on main alone: other branches have no plain line.",
                next="Open the lake on main.",
            )

    def at(self, commit: str) -> CommitNamespace:
        """All tables as they were at a commit, or at a tag, to be read."""
        return CommitNamespace(self.lake, commit)

    def branch(self, name: str) -> BranchNamespace:
        """A branch of the lake: each write of a client is a commit on it."""
        return BranchNamespace(self.lake.branch(name))

    def transaction(self, message: str = "", **options: Any) -> TransactionNamespace:
        """A transaction that clients of this process write to; leaving its block commits it.

        Takes what `lake.transaction` takes. A server has them for clients of any process.
        """
        return TransactionNamespace(self.lake, self.lake.transaction(message, fresh=True, **options))

    def namespace_id(self) -> str:
        """The lake, so that two namespaces of one lake count as one."""
        return f"quire {{ lake: {self.lake.uri!r} }}"


def _places(external: str) -> str | list[str]:
    places = [place.strip() for place in external.split(",") if place.strip()]
    return "allow" if places == ["allow"] else places
