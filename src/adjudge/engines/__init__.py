"""Engines: each divides votes into shards, runs the kernel over them and sums the statistics."""
