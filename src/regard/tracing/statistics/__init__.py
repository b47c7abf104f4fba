"""What heads did over many examples at once: numbers of whole batches, and no traces."""
