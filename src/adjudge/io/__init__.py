"""Votes in, frames and files out: sources, columns, encoding, writing."""
