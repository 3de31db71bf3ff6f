"""Pictures as HTML and SVG, drawn from views; colours are classes, so that they follow light and dark pages."""
