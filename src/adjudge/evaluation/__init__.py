"""Functions on votes and results: against truth, agreement, simulated crowds, and the contract of models and engines."""
