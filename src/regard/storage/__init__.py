"""A Trace to disk and back, exactly, in one file that any reader of safetensors can open.

The file is 8 bytes that give the length of a JSON header, the header, and the tensors' bytes,
map by map, large tensors head by head. The header's metadata say what the tensors are to the trace,
and hold a checksum of the header and one of each blob. Nothing in a file is ever run.
"""

from regard.storage.traces import load_trace, save_trace

__all__ = ["load_trace", "save_trace"]
