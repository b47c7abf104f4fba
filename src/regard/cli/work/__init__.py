"""What the commands do, each in a module of its name; loaded when one runs, not for its help."""
