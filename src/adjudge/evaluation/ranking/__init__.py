"""Pairwise preferences: which of two is better, by many judges, as strengths with intervals (Bradley-Terry)."""
