"""One file per picture: its data, bounded whatever the size of the votes, and the sentence that says what it shows."""
