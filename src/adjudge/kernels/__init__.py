"""The passes over raw arrays: `reference` defines them, faster twins compute the same.

A kernel module offers `hash_texts`, `hash_integers`, `tie_keys`, `check_votes`, `votes_per_row`, `majority`, `em_pass`,
`restore_counts` and `confusion_table`. Arguments are marked IN or OUT; the caller owns every buffer, and a kernel *adds*
to the counts it is handed, so that shards sum. Counts are int64 where labels are hard, and scaled float64 where they are
soft: `restore_counts` turns the sums into votes. Votes are checked before a pass, unless the caller says `checked=True`.
"""
