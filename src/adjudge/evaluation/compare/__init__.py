"""Models compared: by truth, by gold, or by what votes alone tell."""
