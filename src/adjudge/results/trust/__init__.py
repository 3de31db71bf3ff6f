"""How far each worker can be trusted, from the votes and the labels of a fit: arrays in, arrays out.

`posterior` starts from the labels of any model and computes posteriors that are as sure as they are right. From these
`copies` finds who copies whom, and `proof` tells copies from experts. `results/workers.py` gives each worker a verdict.
"""
