"""Whatever people hold, as Arrow columns of a schema: lossless, or a typed error with column, row and value.

source          batches of one schema, in memory or as they come
inputs          whatever people hold as such batches
fit             batches that fit a schema
rules           which types fit which, and when a value does not
misfit          what is wrong with what does not fit
plain_types     types as tables store them
python_values   Python values as columns
value_kinds     kinds of Python values, and what several become together
held            values of Arrow as Python's, and as text where Python has none
json_keys       keys that an object of JSON has twice
text_values     text of files as columns
engine_types    types of engines as columns, and back
vectors         vectors hold finite numbers
taken           rows are copied before a call returns
"""
