"""Text, pictures and sounds in, traces out: tokens from processors, runs and generations."""
