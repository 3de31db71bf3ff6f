"""Everything that knows Spark: votes in Spark frames, the engine that runs on its executors, and streams."""
