"""One call of attention: described, edited, and what is kept of it."""
