"""Exports of annotation tools: one file per tool, one registry, recognised by their content."""
