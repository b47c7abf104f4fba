"""From calls to traces: rows stacked and put in order, padding dropped, tokens named."""
