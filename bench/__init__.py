"""Ratios of time and memory against peers, measured side by side on one machine."""
