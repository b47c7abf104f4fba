"""A Trace to disk and back, exactly, in one file that any reader of safetensors can open.

The file begins with 8 bytes that give the length of a JSON header. The header follows, and then
the bytes of the tensors, map by map, large tensors head by head. For a trace of one map:

    {"__metadata__": {"format": "regard trace", "version": "2",
                      "crc32": "5b0d7c1e",            checksum of this header
                      "blobs_crc32": "93f1a20c…",     checksums of the tensors, 8 digits each
                      "state": "{…}"},                the tree of the trace, as JSON
     "maps.0.source.weights": {"dtype": "F32", "shape": [1, 3, 3], "data_offsets": [0, 36]}}

`state` is the trace as plain data, with a reference in the place of each tensor:

    {"streams": [{"name": "tokens", "texts": ["我", "爱", "中国"], …}],
     "maps": [{"site": "weights", "kind": "encoder",
               "rows": {"stream": "tokens", "runs": [[0, 3]]}, …,
               "source": {"kind": "dense",
                          "weights": {"$tensor": "maps.0.source.weights", "heads": null}}, …}],
     "gaps": []}

`traces.py` turns a Trace into such a tree and back. `writing.py` takes the tensors out of a tree
and writes the file, `reading.py` checks a file and puts the tensors back, and `layout.py` encodes
and decodes the header. A file of format 1 can still be read. Nothing in a file is ever executed.
"""

from regard.storage.recognition import is_trace_file
from regard.storage.traces import load_trace, save_trace

__all__ = ["is_trace_file", "load_trace", "save_trace"]
