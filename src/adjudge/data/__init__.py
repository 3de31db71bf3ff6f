"""The nouns: frozen arrays, checked where they enter."""
