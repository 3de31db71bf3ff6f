"""The live service over HTTP: what `adjudge serve` runs."""
