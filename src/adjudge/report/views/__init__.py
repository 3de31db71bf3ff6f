"""One file per picture: its data, bounded for any number of votes, and the sentence that says what it shows."""
