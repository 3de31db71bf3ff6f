"""The models: one file a family; `registry` lists them for the command line, the checks and the docs."""
