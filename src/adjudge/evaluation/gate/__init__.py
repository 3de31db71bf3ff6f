"""A gate for pipelines: requirements on votes that hold, fail, or stay open until more is known."""
