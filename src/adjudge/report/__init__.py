"""Results for the eye: the data and the sentence of every picture, and the page that shows them."""
