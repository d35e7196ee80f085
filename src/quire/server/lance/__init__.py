"""Lakes as Lance namespaces over HTTP, below `/lance/{lake}`: the addresses of that specification."""
