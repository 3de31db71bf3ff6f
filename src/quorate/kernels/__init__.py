"""The passes over raw arrays: `reference` defines them, faster twins compute the same.

A kernel module offers `hash_texts`, `majority` and `em_pass`. Arguments are marked IN or OUT; the caller owns
every buffer, and a kernel *adds* to the counts it is handed, so that shards sum.
"""
