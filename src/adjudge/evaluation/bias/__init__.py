"""Whether a property of tasks, like the length of an answer, moves the verdicts of a judge."""
