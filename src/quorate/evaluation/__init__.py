"""Votes drawn from known confusions: crowds whose truth and whose workers are known."""
