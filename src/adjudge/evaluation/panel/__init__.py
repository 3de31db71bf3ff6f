"""How many judges are enough, which panel for which money, and which judge adds nothing."""
