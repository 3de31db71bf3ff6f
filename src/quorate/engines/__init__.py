"""Where a pass runs: an engine lays votes out as shards, maps the kernel over them and sums the statistics."""
