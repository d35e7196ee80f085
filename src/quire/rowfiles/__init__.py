"""Files of rows, read and written in one way by the command line, the graph, pipelines and exports."""
