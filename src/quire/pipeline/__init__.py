"""Files and frames into tables and a graph by a mapping: one commit, in this process or on Spark.

>>> from pathlib import Path
>>> import quire
>>> from quire import pipeline
>>> rows = Path("people.csv").write_text("id,name\\n1,Ada\\n")
>>> lake = quire.create("pipeline-lake")
>>> made = lake.create_table("people", [{"id": 0, "name": "Bo"}], key="id")
>>> loaded = pipeline.run(lake, {"sources": [{"files": "people.csv", "table": "people"}]})
>>> lake["people"].count()
2
"""

from quire.pipeline.mapping import Column, Feed, Pipeline, read_pipeline
from quire.pipeline.result import Fed, Loaded
from quire.pipeline.run import run, size_of

__all__ = ["Column", "Fed", "Feed", "Loaded", "Pipeline", "read_pipeline", "run", "size_of"]
