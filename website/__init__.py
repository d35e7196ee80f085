"""The documentation as a web site that needs no network: `make site`.

markdown     the pages of `docs/`, with links, highlighted code and the text for the search
api          what is public, read from the code
reference    the Python reference, made of docstrings and signatures
mentions     code in the pages leads to the reference, and the reference back to the pages
notebook     notebooks are run, and shown with what they print
layout       what surrounds every page: navigation, search, themes
theme/       styles and scripts; all sizes and colours are those of `src/quire/server/ui/static/tokens.css`
"""
