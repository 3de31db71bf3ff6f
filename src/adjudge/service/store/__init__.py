"""What a live service keeps: an append-only log of events per campaign, from which everything else can be rebuilt."""
