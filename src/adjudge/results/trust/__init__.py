"""How far each worker can be trusted, from the votes and the labels of a fit: arrays in, arrays out.

`assess` is the way in. It starts from the labels of any model and computes posteriors of its own that are as sure as they
are right (`posterior`). From these it finds who copies whom (`copies`), and a word for each worker with its intervals
(`verdicts`).
"""
