"""The words that rules are made of: kinds of things, actions, and what is known of each."""

from __future__ import annotations

ACTIONS = (
    "read", "readColumn", "readRow", "export", "write", "schema", "index", "branchCreate", "branchDelete", "mergeInto",
    "tag", "revert", "invoke", "maintain", "vend", "admin",
)  # fmt: skip
"""`Action::"read"` holds for the table or branch alone with `==`, and for its columns and rows, too, with `in`."""

ON = {
    "read": ("Lake", "Branch", "Table"),
    "readColumn": ("Column",),
    "readRow": ("Row",),
    "export": ("Table",),
    "write": ("Table",),
    "schema": ("Table",),
    "index": ("Table",),
    "branchCreate": ("Branch",),
    "branchDelete": ("Branch",),
    "mergeInto": ("Branch",),
    "tag": ("Branch",),
    "revert": ("Branch",),
    "invoke": ("Query",),
    "maintain": ("Lake",),
    "vend": ("Table",),
    "admin": ("Lake",),
}
"""What each action is done to."""

KINDS = ("Actor", "Role", "Lake", "Branch", "Table", "Column", "Row", "Query", "Action")
LAKE = "lake"
"""The lake that holds the rules: `Lake::"lake"`."""
CONTEXT = ("branch", "source", "ops", "via", "approvals")

MASKS = ("null", "hash", "last4")

SCHEMA = """
entity Role;
entity Actor in [Role] = { name: String };
entity Lake;
entity Branch in [Lake] = { name: String, owner: String, protected: Bool };
entity Table in [Lake] = { name: String, tags: Set<String> };
entity Column in [Table] = { name: String, table: String, tags: Set<String> };
entity Query in [Lake] = { name: String };
action read;
"""
"""For people who write rules: the kinds of things and what is known of them. A Row has the columns of its table."""
