"""What a fit says: labels, workers, what was learned, and how far both can be trusted."""
