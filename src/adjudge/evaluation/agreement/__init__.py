"""How far workers agree, with intervals, and who copies whom."""
