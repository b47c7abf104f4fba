"""Write a file or a folder whole or not at all, and let only one process work at a place.

`atomic_file` and `atomic_folder` give a temporary path in the same folder as the target. The caller
writes there; when the block ends without an exception, the temporary path takes the name of the
target. If the block raises, whatever stood at the target before is untouched and the temporary path
is removed::

    with atomic_file(Path("map.csv")) as temporary:
        temporary.write_text("query,key,weight")  # writes .regard-1f0c…-4711-….part
    # only here does map.csv exist, or have its new content

A process that is killed inside the block leaves its temporary path. The name says which process
wrote it, so that the next save in the same folder removes it, and never that of a running process::

    atomic.py      atomic_file, atomic_folder
    temporary.py   names of temporary paths; remove_leftovers, remove_folder
    replacement.py replacing an existing folder by a new one in one step, and what a reader of a
                   folder does while it is replaced
    lock.py        exclusive_lock: a lock file that a killed process does not leave behind
"""

from regard.files.atomic import atomic_file, atomic_folder
from regard.files.lock import exclusive_lock
from regard.files.replacement import finish_replacement, read_unchanged_folder
from regard.files.temporary import remove_folder, remove_leftovers

__all__ = [
    "atomic_file",
    "atomic_folder",
    "exclusive_lock",
    "finish_replacement",
    "read_unchanged_folder",
    "remove_folder",
    "remove_leftovers",
]
