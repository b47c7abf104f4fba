"""The checks, one module per subject; each module lists its checks in `CHECKS`."""
