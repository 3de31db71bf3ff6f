"""Campaigns as folds of their logs: votes in, decisions by a policy out, the same on every replay. No network here."""
