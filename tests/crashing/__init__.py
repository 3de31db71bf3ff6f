"""A server that is killed again and again under load, and the proof that nothing was lost.

`server` runs it in processes that start in a few milliseconds, `clients` keep a model of their own of what has to be in the
log, `proof` compares both, and `run` puts them together.
"""
