"""Lakes behind a server: the verbs of the library over HTTP. `quire.connect` is the way in."""
