"""The pages of the server, below `/ui`: each a function of its twin in JSON, which its first answer holds.

ui_routes   which page is at which address
twins/      what a page shows, as JSON, from the verbs of the library
shell       the document around it: state in a data block, no script and no style of its own
assets      the files of a browser, from inside the package
sessions    who a browser is: a one-time word or a key becomes a cookie
browsers    what a page of another site may not do
"""
