"""The live service over HTTP: what `quorate serve` runs."""
