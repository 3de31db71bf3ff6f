"""The durable log of a service: append-only events per campaign, from which everything else can be rebuilt."""
