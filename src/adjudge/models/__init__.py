"""The models: one file per family; `base` lists them for the command line, the checks and the docs."""
