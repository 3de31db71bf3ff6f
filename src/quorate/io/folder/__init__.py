"""Votes encoded on disk: built in bounded memory, opened without reading them."""
