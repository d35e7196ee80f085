"""A lake for unmodified Lance clients: pylance, LanceDB and engines that know Lance namespaces."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lance_namespace import register_namespace_impl

if TYPE_CHECKING:
    from quire.lance.batch import Batch
    from quire.lance.namespace import Namespace

__all__ = ["Batch", "Namespace"]

_MODULES = {"Batch": "quire.lance.batch", "Namespace": "quire.lance.namespace"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


register_namespace_impl("quire", "quire.lance.Namespace")


def __dir__() -> list[str]:
    return sorted(__all__)
