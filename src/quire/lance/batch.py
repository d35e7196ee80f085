"""Writes of unmodified handles on many tables, published together.

A handle that was opened with a `Batch` writes as ever: its data and its manifests are staged, and what it asks the
namespace for is kept. `commit()` sends it all as one batch.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import lance_namespace as spec

from quire.lance.answers import answering, apart
from quire.lance.operations import path_of, staged_name
from quire.store import Store
from quire.store.clock import token


class Batch(spec.LanceNamespace):
    """A namespace that keeps new versions back until `commit()`, which publishes all of them or none.

    It stands before any namespace that commits batches: `quire.lance.Namespace(lake)`, or a REST client of a server.
    A handle sees its own writes, and one that is opened with the batch later sees them too. Leaving the block with an
    exception discards the batch.

        with Batch(Namespace(lake)) as batch:
            lance.dataset(namespace_client=batch, table_id=["debits"]).insert(rows)
            lance.dataset(namespace_client=batch, table_id=["credits"]).insert(rows)
    """

    def __init__(
        self, namespace: spec.LanceNamespace, *, uri: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """`uri` is that of the server, for REST clients that have no operation for batches, such as pylance's."""
        self._namespace = namespace
        self._uri, self._headers = uri, dict(headers or {})
        self._lock = threading.Lock()
        self._folder = f"_batches/{token()}"
        self._versions: list[spec.CreateTableVersionRequest] = []
        self._dropped: list[spec.DeregisterTableRequest] = []
        self._open = True
        self.transaction_id: str | None = None
        """The commit, once there is one."""

    def namespace_id(self) -> str:
        """Another namespace than the one behind it, as it shows other versions."""
        return f"quire batch {id(self)} of {self._namespace.namespace_id()}"

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.commit()
        else:
            self.discard()

    def commit(self) -> spec.BatchCommitTablesResponse | None:
        """Publish everything in one commit; None when there was nothing."""
        with self._lock:
            self._check_open()
            self._open = False
            operations = [spec.CommitTableOperation(create_table_version=request) for request in self._versions]
            operations += [spec.CommitTableOperation(deregister_table=request) for request in self._dropped]
        if not operations:
            return None
        done = self._send(spec.BatchCommitTablesRequest(operations=operations))
        self.transaction_id = done.transaction_id
        return done

    def _send(self, request: spec.BatchCommitTablesRequest) -> spec.BatchCommitTablesResponse:
        if self._uri is None:
            return self._namespace.batch_commit_tables(request)
        from lance_namespace.errors import from_error_code
        from lance_namespace_urllib3_client.api.table_api import TableApi
        from lance_namespace_urllib3_client.api_client import ApiClient
        from lance_namespace_urllib3_client.configuration import Configuration
        from lance_namespace_urllib3_client.exceptions import ApiException

        client = ApiClient(Configuration(host=self._uri))
        client.default_headers.update(self._headers)
        try:
            done: spec.BatchCommitTablesResponse = TableApi(client).batch_commit_tables(request)
            return done
        except ApiException as error:
            told = json.loads(error.body or "{}")
            raise from_error_code(int(told.get("code", 18)), str(told.get("error", error.reason))) from error

    def discard(self) -> None:
        """Forget it. What was staged is invisible, and cleanup removes it."""
        self._open = False

    # -- what is kept back ------------------------------------------------------------------------------------

    @answering
    def create_table_version(self, request: spec.CreateTableVersionRequest) -> spec.CreateTableVersionResponse:
        """Keep a version for the commit."""
        self._check_open()
        kept = self._kept_back(request)
        with self._lock:
            self._check_open()
            newest = self._newest(kept.id)
            if newest is not None and kept.version != newest.version + 1:
                raise spec.ConcurrentModificationError(
                    f"Version {kept.version} of {'.'.join(kept.id or [])!r} is in this batch already."
                )
            self._versions.append(kept)
        return spec.CreateTableVersionResponse(version=_version(kept))

    def _kept_back(self, request: spec.CreateTableVersionRequest) -> spec.CreateTableVersionRequest:
        """The same of a copy of the manifest.

        A client that is told of a staged manifest makes it a version of the table by itself, for everybody to see. Of
        one that is named as a version, wherever it lies, there is nothing left to do.
        """
        found = self._namespace.describe_table(spec.DescribeTableRequest(id=request.id))
        uri = str(found.location)
        files = Store.open(uri, found.storage_options)
        name = f"{self._folder}/{2**64 - 1 - request.version:020d}.manifest"
        files.put(name, files.get(staged_name(uri, request.manifest_path)))
        return request.model_copy(update={"manifest_path": f"{path_of(uri)}/{name}", "e_tag": None})

    def describe_table_version(self, request: Any) -> spec.DescribeTableVersionResponse:
        """A version of this batch, or one that is committed."""
        wanted = _model(spec.DescribeTableVersionRequest, request)
        for kept in self._kept(wanted.id):
            if kept.version == wanted.version:
                return spec.DescribeTableVersionResponse(version=_version(kept))
        return self._namespace.describe_table_version(wanted)

    def list_table_versions(self, request: Any) -> spec.ListTableVersionsResponse:
        """The versions of a table, and those of this batch."""
        wanted = _model(spec.ListTableVersionsRequest, request)
        kept = [_version(one) for one in self._kept(wanted.id)]
        if wanted.descending and wanted.limit == 1 and kept:
            return spec.ListTableVersionsResponse(versions=kept[-1:])
        found = self._namespace.list_table_versions(wanted)
        if wanted.descending:
            found.versions = [*reversed(kept), *found.versions] if wanted.page_token is None else found.versions
        elif found.page_token is None:
            found.versions = [*found.versions, *kept]
        return found

    def deregister_table(self, request: Any) -> spec.DeregisterTableResponse:
        """Keep for the commit that a table goes."""
        wanted = _model(spec.DeregisterTableRequest, request)
        with self._lock:
            self._check_open()
            self._dropped.append(wanted)
        return spec.DeregisterTableResponse(id=wanted.id)

    # -- what is not ------------------------------------------------------------------------------------------

    def describe_table(self, request: Any) -> Any:
        return self._ask("describe_table", spec.DescribeTableRequest, request)

    def declare_table(self, request: Any) -> Any:
        """Declare a table at once: it is seen by nobody until its first version is committed."""
        return self._ask("declare_table", spec.DeclareTableRequest, request)

    def table_exists(self, request: Any) -> Any:
        return self._ask("table_exists", spec.TableExistsRequest, request)

    def list_tables(self, request: Any) -> Any:
        return self._ask("list_tables", spec.ListTablesRequest, request)

    def list_namespaces(self, request: Any) -> Any:
        return self._ask("list_namespaces", spec.ListNamespacesRequest, request)

    def describe_namespace(self, request: Any) -> Any:
        return self._ask("describe_namespace", spec.DescribeNamespaceRequest, request)

    def namespace_exists(self, request: Any) -> Any:
        return self._ask("namespace_exists", spec.NamespaceExistsRequest, request)

    def _ask(self, operation: str, model: Any, request: Any) -> Any:
        asked = _model(model, request)
        return apart(lambda: getattr(self._namespace, operation)(asked))

    def _kept(self, table: list[str] | None) -> list[spec.CreateTableVersionRequest]:
        with self._lock:
            return [one for one in self._versions if one.id == table]

    def _newest(self, table: list[str] | None) -> spec.CreateTableVersionRequest | None:
        return next((one for one in reversed(self._versions) if one.id == table), None)

    def _check_open(self) -> None:
        if not self._open:
            raise spec.InvalidTableStateError("The batch is over. Open the tables again, with a new batch or without.")


def _model(model: Any, request: Any) -> Any:
    """A request as the specification has it; Lance itself asks with what it has at hand."""
    if isinstance(request, model):
        return request
    return model.model_validate(request.model_dump() if hasattr(request, "model_dump") else request)


def _version(request: spec.CreateTableVersionRequest) -> spec.TableVersion:
    return spec.TableVersion(
        version=request.version, manifest_path=request.manifest_path, manifest_size=request.manifest_size
    )
