"""The true share of each label in groups of tasks, with intervals: without known labels, or corrected by some."""
