"""The graph that the tests of the language speak of."""

from __future__ import annotations

from quire.graph.catalog import Catalog
from quire.graph.language import check, parse, plan
from quire.graph.schema.resolve import catalog

GRAPH: Catalog = catalog(
    """
    interface Named { title: String }
    node Person {
        name: String @key
        age: I32?  born: Date?  seen: DateTime?  bio: String?  tags: [String]?  status: enum(open, closed)?
        photo: Blob?  vec: Vector(3)?  score: F64?  active: Bool?  limit: I64?
    }
    node Company implements Named { name: String @key  size: I64? }
    node Doc { title: String  emb: Vector(2)? @embed("title", model="m") }
    node Pair { a: String  b: I64  @key(a, b) }
    edge Knows: Person -> Person { since: Date?  kind: String? }
    edge WorksAt: Person -> Company { role: String }
    edge Wrote: Person -> Doc
    edge Contains: Pair -> Pair
    """
)


def query(body: str, parameters: str = "") -> plan.Query:
    """The plan of a query."""
    [found] = parse(f"query q({parameters}) {{\n{body}\n}}").queries
    return check(found, GRAPH)


def read(match: str, returned: str = "$p.name", rest: str = "", parameters: str = "") -> plan.Read:
    body = query(f"match {{ {match} }}\nreturn {{ {returned} }}\n{rest}", parameters).body
    assert isinstance(body, plan.Read)
    return body


def write(text: str, parameters: str = "") -> tuple[plan.MutationStatement, ...]:
    body = query(text, parameters).body
    assert isinstance(body, plan.Mutation)
    return body.statements
