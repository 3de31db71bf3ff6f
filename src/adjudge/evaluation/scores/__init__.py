"""Numeric scores: one score per item with an interval, and what every judge does to the scale."""
