"""Encoded votes in a folder, for votes that do not fit in memory."""
