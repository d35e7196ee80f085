"""From the tree of a text to a typed plan: names, types, scopes."""
