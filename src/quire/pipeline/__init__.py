"""Files and frames into tables and a graph by a mapping: one commit, in this process or on Spark.

from quire import pipeline

pipeline.run(lake, "pipeline.yaml")                     # in this process
pipeline.run(lake, "pipeline.yaml", engine=spark)       # the same on Spark
"""

from quire.pipeline.mapping import Column, Feed, Pipeline, read_pipeline
from quire.pipeline.run import Fed, Loaded, run, size_of

__all__ = ["Column", "Fed", "Feed", "Loaded", "Pipeline", "read_pipeline", "run", "size_of"]
