"""How far workers agree: coefficients with intervals, pairs of workers, and how many independent votes they amount to."""
