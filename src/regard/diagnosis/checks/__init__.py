"""The checks by what they look at; each entry is one check, and adding one is adding an entry."""
