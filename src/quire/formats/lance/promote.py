"""Backfill: bring a table's plain HEAD to a published state, conditionally and exactly once.

Lance's `Restore` alone is unconditional: the last writer wins, and a foreign append would be dropped. So the restore
is committed through a namespace object that knows only the linear head we have seen and accepts exactly the version
after it, with create-if-absent.
"""

from __future__ import annotations

import contextvars
import uuid
from typing import TYPE_CHECKING, Any

from quire.formats.lance.columns import manifest_name
from quire.formats.lance.session import LanceSession, first_line
from quire.formats.protocol import Head, Promotion
from quire.ledger import Pin
from quire.store import Outcome, Store

if TYPE_CHECKING:
    from lance import LanceDataset

LAKE, WRITE, COMMIT, COUNTER = "quire.lake", "quire.write", "quire.commit", "quire.counter"


def inspect(session: LanceSession, location: str, lake: str) -> tuple[LanceDataset, Head]:
    """The plain HEAD and whose it is, by the properties of its transaction."""
    handle = session.open_head(location)
    return handle, head_of(handle, lake)


def head_of(handle: LanceDataset, lake: str) -> Head:
    transaction = handle.read_transaction(handle.version)
    properties = dict(getattr(transaction, "transaction_properties", None) or {})
    ours = properties.get(LAKE) == lake and properties.get(COUNTER, "").isdigit()
    return Head(
        version=int(handle.version),
        counter=int(properties[COUNTER]) if ours else None,
        commit=properties.get(COMMIT) if ours else None,
    )


def cleans_itself(handle: LanceDataset) -> list[str]:
    """Settings by which Lance deletes old versions of the table on its own."""
    return sorted(key for key in handle.config() if key.startswith("lance.auto_cleanup"))


def promote(session: LanceSession, pin: Pin, *, lake: str, commit: str, table: str) -> Promotion:
    """Make `pin` the plain HEAD unless HEAD is already there or further, or somebody else wrote in between."""
    _handle, head = inspect(session, pin.location, lake)
    version = int(pin.version)
    if version == head.version or (head.counter is not None and head.counter >= pin.counter):
        return Promotion(table, "current", head.version)
    if head.counter is None and head.version > pin.head:
        return Promotion(table, "foreign", head.version, f"version {head.version} was written by a plain Lance client")
    cleans = cleans_itself(session.open(pin))
    if cleans:
        # Lance would run its cleanup with the restore, and that does not see the versions Quire pins.
        return Promotion(
            table, "blocked", head.version, f"the table deletes its own old versions ({', '.join(cleans)})"
        )
    place = Promoting(session, pin, head.version)
    properties = {LAKE: lake, COMMIT: commit, COUNTER: str(pin.counter)}
    try:
        place.restore(properties)
    except Exception as error:
        if place.taken:
            now = inspect(session, pin.location, lake)[1]
            if now.counter is not None and now.counter >= pin.counter:
                return Promotion(table, "current", now.version)
            kind = "foreign" if now.counter is None else "behind"
            return Promotion(table, kind, now.version, first_line(error))  # type: ignore[arg-type]
        raise
    finally:
        place.tidy()
    return Promotion(table, "promoted", head.version + 1)


class Promoting:
    """A namespace of one table and one decision."""

    def __init__(self, session: LanceSession, pin: Pin, head: int) -> None:
        self.session, self.pin, self.head = session, pin, head
        self.uri = session.uri(pin.location)
        self.files = Store.open(self.uri, session.store.options)
        self.taken = False
        # Lance calls back on threads of its own; what it asks for there belongs to the operation that began here.
        self._context = contextvars.copy_context()
        self._left: str | None = None

    def restore(self, properties: dict[str, str]) -> None:
        import lance
        from lance import LanceDataset, LanceOperation, Transaction

        namespace = _namespace(self)
        where: dict[str, Any] = {"namespace_client": namespace, "table_id": ["table"]}

        def work() -> None:
            handle = lance.dataset(**where, storage_options=self.session.options, session=self.session.session)
            transaction = Transaction(
                read_version=self.head,
                operation=LanceOperation.Restore(int(self.pin.version)),
                uuid=str(uuid.uuid4()),
                transaction_properties=properties,
            )
            LanceDataset.commit(handle, transaction, max_retries=0, namespace_client_managed_versioning=True, **where)

        self.session.call("promote", work, hops=4, what=f"backfill of {self.pin.location}")

    def path(self, version: int) -> str:
        """A manifest's path as a namespace names it: below the bucket, or below the file system's root."""
        scheme, separator, rest = self.uri.partition("://")
        inside = rest.partition("/")[2] if separator else scheme.lstrip("/")
        return f"{inside}/_versions/{manifest_name(version)}"

    def called_back(self, version: int, staged_path: str) -> None:
        self._context.run(self.put, version, staged_path)

    def put(self, version: int, staged_path: str) -> None:
        """Create the canonical manifest from Lance's staging file, or fail for good."""
        name = staged_path.rpartition("/")[2]
        self._left = f"_versions/{name}"
        if version != self.head + 1:
            self.taken = True
            raise FileExistsError(f"HEAD moved: Lance wants version {version}, expected {self.head + 1}")
        body = self.files.get(self._left)
        created = self.files.create(f"_versions/{manifest_name(version)}", body, mine=lambda found: found == body)
        if created.outcome is not Outcome.COMMITTED:
            self.taken = True
            raise FileExistsError(f"version {version} was created by somebody else")

    def tidy(self) -> None:
        if self._left is not None:
            self.files.delete(self._left)


def _namespace(place: Promoting) -> Any:
    import lance_namespace as ns
    from lance_namespace_urllib3_client import models

    m: Any = models

    def body(request: Any) -> dict[str, Any]:
        return request.model_dump() if hasattr(request, "model_dump") else dict(request)

    def described(version: int, path_version: int | None = None) -> Any:
        path = place.path(version if path_version is None else path_version)
        return m.TableVersion(version=version, manifest_path=path, timestamp_millis=0)

    class OneDecision(ns.LanceNamespace):
        def namespace_id(self) -> str:
            return f"quire:{place.pin.location}"

        def describe_table(self, request: Any) -> Any:
            return m.DescribeTableResponse(location=place.uri, managed_versioning=True)

        def list_table_versions(self, request: Any) -> Any:
            return m.ListTableVersionsResponse(versions=[described(place.head)])

        def describe_table_version(self, request: Any) -> Any:
            version = body(request).get("version")
            if version is not None and version < 0:
                # A staged version arrives as a negative signed number.
                return m.DescribeTableVersionResponse(version=described(version % 2**63, version % 2**64))
            if version in (None, place.head, int(place.pin.version)):
                return m.DescribeTableVersionResponse(version=described(version or place.head))
            raise ns.TableVersionNotFoundError(str(version))

        def create_table_version(self, request: Any) -> Any:
            given = body(request)
            try:
                place.called_back(given["version"], given["manifest_path"])
            except FileExistsError as error:
                raise ns.ConcurrentModificationError(str(error)) from error
            return m.CreateTableVersionResponse(version=described(given["version"]))

    return OneDecision()
