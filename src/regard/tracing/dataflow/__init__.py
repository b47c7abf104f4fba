"""Where every tensor came from: marks that follow the data, and attention written by hand."""
