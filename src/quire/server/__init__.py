"""One process in front of one or many lakes: HTTP for clients without the library, shared slots for writers, access.

A lake never needs it and works beside it. The application is plain ASGI: `app` takes a request through its steps,
`routes` says what there is, and the modules of `handlers` are thin translations of the library's verbs.
"""
