"""One file per family of charts: each takes a view, and draws nothing that the view does not hold."""
