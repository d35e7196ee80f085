"""What is public, read from the code: names, signatures with types, docstrings.

Public is what the packages below list in `__all__`, and the classes that their functions and methods return.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

ROOT = Path(__file__).resolve().parents[1]
TESTING_GUIDE = ROOT / "docs" / "guides" / "testing.md"
HANDLES = ("Lake", "Transaction", "TransactionTable", "Snapshot", "Table", "Rows")
"""The order in which a reader meets them."""
CLOSED = "quire.graph.language."
"""What a query was parsed into is shown as far as `Graph.check` returns it."""
IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Group:
    """A page of the reference: modules whose names it shows, or a few classes of one."""

    slug: str
    title: str
    intro: str
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """Something with a name, as it is imported."""

    path: str
    kind: str  # module, class, error, function, method, property, field
    thing: Any
    module: str  # where it is defined
    doc: str
    value: str = ""  # of a field or property: its type
    members: list[Entry] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def owner(self) -> str:
        return self.path.rpartition(".")[0]

    def walk(self) -> Iterator[Entry]:
        yield self
        for member in self.members:
            yield from member.walk()


# -- which names ------------------------------------------------------------------------------------------------------


def groups() -> list[Group]:
    """All pages of the reference, in the order of the navigation."""
    import quire

    found = Collector()
    names = [(f"quire.{name}", getattr(quire, name)) for name in quire.__all__]
    functions = [found.entry(path, thing) for path, thing in names if inspect.isfunction(thing)]
    classes = [(p, t) for p, t in names if inspect.isclass(t) and not issubclass(t, BaseException)]
    for path, thing in classes:
        found.paths[thing] = path
    shown = [found.entry(path, thing) for path, thing in classes]
    large = [entry for entry in shown if sum(m.kind == "method" for m in entry.members) >= 4]
    large.sort(key=lambda entry: HANDLES.index(entry.name) if entry.name in HANDLES else len(HANDLES))
    small = [entry for entry in shown if entry not in large]
    pages = [Group("quire", "quire", module_doc("quire"), functions)]
    pages += [Group(entry.name, entry.name, "", [entry]) for entry in large if entry.name != "Graph"]
    [graph] = [entry for entry in shown if entry.name == "Graph"]
    lake_results = found.results([*functions, *(e for e in shown if e is not graph)])
    pages.append(
        Group("results", "Results of a lake", "What the verbs of a lake and its tables return.", small + lake_results)
    )
    pages.append(Group("Graph", "Graph", "", [graph]))
    pages.append(
        Group("graph-results", "Results of a graph", "What the verbs of a graph return.", found.results([graph]))
    )
    for module in ("quire.graph.embed", "quire.pipeline", "quire.spark"):
        entries = found.module(module)
        pages.append(Group(module, module, module_doc(module), entries + found.results(entries)))
    pages.append(
        Group("quire.errors", "quire.errors", module_doc("quire.errors"), found.module("quire.errors", errors=True))
    )
    for module in testing_modules():
        pages.append(Group(module, module, module_doc(module), found.module(module)))
    return pages


def testing_modules() -> list[str]:
    """What `quire.testing` offers to others: the modules in the table of its guide."""
    import quire.testing

    guide = TESTING_GUIDE.read_text("utf-8")
    names = [info.name for info in pkgutil.iter_modules(quire.testing.__path__, "quire.testing.")]
    return [name for name in names if f"| `{name}`" in guide or f", `{name}`" in guide]


class Collector:
    """Turns objects into entries, and knows which classes already have one."""

    def __init__(self) -> None:
        self.paths: dict[Any, str] = {}

    def module(self, name: str, *, errors: bool = False) -> list[Entry]:
        """What a module lists in `__all__`, or what it defines; when `errors`, only those."""
        module = importlib.import_module(name)
        listed = getattr(module, "__all__", None)
        if listed is None:
            listed = [n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == name]
        things = [(f"{name}.{n}", getattr(module, n)) for n in listed]
        for path, thing in things:
            if inspect.isclass(thing):
                self.paths.setdefault(thing, path)
        found = [self.entry(p, t) for p, t in things if inspect.isclass(t) or inspect.isroutine(t)]
        return [entry for entry in found if entry.kind == "error" or not errors]

    def results(self, entries: list[Entry], depth: int = 2) -> list[Entry]:
        """The classes of Quire that these return, and those that these hold in turn."""
        new: list[Entry] = []
        for of in (each for entry in entries for each in entry.walk()):
            for thing in returned(of):
                if thing not in self.paths:
                    self.paths[thing] = f"{thing.__module__}.{thing.__qualname__}"
                    new.append(self.entry(self.paths[thing], thing))
        further = [entry for entry in new if not entry.module.startswith(CLOSED)]
        return new + (self.results(further, depth - 1) if depth > 1 and further else [])

    def entry(self, path: str, thing: Any) -> Entry:
        if inspect.isclass(thing):
            kind = "error" if issubclass(thing, BaseException) else "class"
            doc = own_doc(thing)
            return Entry(path, kind, thing, thing.__module__, doc, members=list(members(path, thing)))
        return Entry(path, "function", thing, thing.__module__, inspect.getdoc(thing) or "")


def own_doc(thing: type) -> str:
    """Its docstring; what dataclasses and enums invent is none."""
    doc = inspect.cleandoc(vars(thing).get("__doc__") or "")
    return "" if doc.startswith(f"{thing.__name__}(") else doc


def module_doc(name: str) -> str:
    return inspect.getdoc(importlib.import_module(name)) or ""


def members(path: str, thing: type) -> Iterator[Entry]:
    """Fields, properties and methods of a class, those of bases that are not public included."""
    described = attribute_docs(thing)
    types_of = fields_of(thing)
    for name, value in types_of.items():
        yield Entry(f"{path}.{name}", "field", None, thing.__module__, described.get(name, ""), value=value)
    seen = set(types_of)
    for base in thing.__mro__:
        if base is thing or (base.__module__.startswith("quire") and not issubclass(thing, BaseException)):
            for name, value in vars(base).items():
                if not name.startswith("_") and name not in seen:
                    seen.add(name)
                    yield from member(f"{path}.{name}", thing, name, value, base.__module__)


def member(path: str, owner: type, name: str, value: Any, module: str) -> Iterator[Entry]:
    doc = inspect.getdoc(getattr(owner, name, None)) or ""
    if isinstance(value, property | functools.cached_property):
        function = value.fget if isinstance(value, property) else value.func
        returns = getattr(function, "__annotations__", {}).get("return", "")
        yield Entry(path, "property", value, module, inspect.getdoc(value) or "", value=str(returns))
    elif isinstance(value, staticmethod | classmethod):
        yield Entry(path, "method", value.__func__, module, doc)
    elif inspect.isfunction(value):
        yield Entry(path, "method", value, module, doc)
    elif isinstance(value, enum.Enum):
        yield Entry(path, "field", None, module, attribute_docs(owner).get(name, ""), value=repr(value.value))


def fields_of(thing: type) -> dict[str, str]:
    """The public fields of a dataclass, struct, named tuple or typed dict, with their types as written."""
    names = getattr(thing, "__dataclass_fields__", None) or getattr(thing, "__struct_fields__", None)
    names = names or getattr(thing, "_fields", ()) or ()
    annotations: dict[str, Any] = {}
    for base in reversed(thing.__mro__):
        annotations |= inspect.get_annotations(base)
    return {name: str(annotations.get(name, "")) for name in names if not name.startswith("_")}


@functools.cache
def attribute_docs(thing: type) -> dict[str, str]:
    """The texts that stand below attributes in the body of a class."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    except (OSError, TypeError):
        return {}
    found: dict[str, str] = {}
    statements = getattr(body, "body", [])
    for before, after in itertools.pairwise(statements):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        target = before.target if isinstance(before, ast.AnnAssign) else None
        if isinstance(before, ast.Assign):
            target = before.targets[0]  # type: ignore[assignment]
        if is_text and isinstance(target, ast.Name) and isinstance(after.value.value, str):
            found[target.id] = inspect.cleandoc(after.value.value)
    return found


# -- types ------------------------------------------------------------------------------------------------------------


@functools.cache
def namespace(module: str) -> dict[str, Any]:
    """The names of a module, those that it imports for type checks only included."""
    loaded = importlib.import_module(module)
    names = dict(vars(loaded))
    for node in ast.walk(ast.parse(Path(str(loaded.__file__)).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quire"):
            for alias in node.names:
                try:
                    source = importlib.import_module(str(node.module))
                    names.setdefault(alias.asname or alias.name, getattr(source, alias.name))
                except (ImportError, AttributeError):
                    continue
    return names


def resolve(module: str, name: str) -> Any:
    """What a name in an annotation stands for; None if it is nothing of Quire's."""
    value = namespace(module).get(name.split(".")[0])
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def returned(entry: Entry) -> Iterator[type]:
    """The classes of Quire in the type that a function returns or a field has."""
    text = entry.value or str(getattr(entry.thing, "__annotations__", {}).get("return", ""))
    for name in IDENTIFIER.findall(text):
        thing = resolve(entry.module, name)
        if (
            inspect.isclass(thing)
            and thing.__module__.startswith("quire.")
            and not thing.__module__.startswith("quire.testing")
            and not thing.__name__.startswith("_")
            and not issubclass(thing, BaseException)
        ):
            yield thing


def choices(thing: Any) -> tuple[Any, ...] | None:
    """The values of an alias such as `Literal["snapshot", "serializable"]`."""
    return get_args(thing) if get_origin(thing) is typing.Literal else None


STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str
    default: str


def signature(thing: Callable[..., Any]) -> tuple[list[Parameter], str]:
    """The parameters, `*` and `/` among them, and the return type."""
    whole = inspect.signature(thing)
    shown: list[Parameter] = []
    keyword_only = False
    for parameter in whole.parameters.values():
        if parameter.name in ("self", "cls") and not shown:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            shown.append(Parameter("*", "", ""))
            keyword_only = True
        name = STARS.get(parameter.kind, "") + parameter.name
        keyword_only = keyword_only or parameter.kind is parameter.VAR_POSITIONAL
        default = "" if parameter.default is parameter.empty else default_text(parameter.default)
        annotation = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
        shown.append(Parameter(name, annotation, default))
    returns = "" if whole.return_annotation is whole.empty else str(whole.return_annotation)
    return shown, returns


def default_text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type | types.FunctionType):
        return value.__name__
    text = repr(value)
    return "…" if text.startswith("<") or len(text) > 60 else text


def constructor(entry: Entry) -> tuple[list[Parameter], str] | None:
    """How to make one of a class, if that is for users: everything it takes is public."""
    thing = entry.thing
    if entry.kind != "class" or issubclass(thing, enum.Enum) or not callable(thing):
        return None
    if thing.__init__ is object.__init__ and thing.__new__ is object.__new__:
        return None
    if getattr(thing, "_is_protocol", False):
        return None
    try:
        shown, _ = signature(thing)
    except (TypeError, ValueError):
        return None
    return shown, ""
