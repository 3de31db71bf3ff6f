"""A server that is killed again and again under load, and the proof that nothing was lost.

`server` runs it in processes that start in a few milliseconds, `clients` keep their own model of the expected contents of the
log, `proof` compares both, and `run` puts them together.
"""
