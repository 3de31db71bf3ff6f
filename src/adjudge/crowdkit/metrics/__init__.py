"""Figures of votes and of workers."""
