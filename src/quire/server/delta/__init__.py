"""The Delta tables of a lake below `/delta/{lake}`, as a Unity Catalog shows them to unmodified clients."""
