"""From clips to a motion graph, its file, and the report of what it can do."""
