"""Promises from a random sample of known labels: certificates, intervals of accuracy, and audits of a live service."""
