"""How far each worker can be trusted, told from the votes and the labels of a fit: arrays in, arrays out.

`assess` is the way in. It takes the labels of any model as a start, makes posteriors of its own that are as sure as
they are right (`posterior`), and tells from these: intervals (`intervals`), what answers say about the truth
(`kinds`), who shares answers (`copies`), and a word for each worker (`verdicts`).
"""
