"""Functions on votes and results: against truth, agreement, panels, rates, rankings and simulated crowds."""
