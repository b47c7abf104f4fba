"""Code that a checkpoint brings along is never run: it is found before transformers can run it.

A checkpoint of the Hugging Face hub may hold Python files, and its JSON files name classes in them,

    "auto_map": {"AutoModelForCausalLM": "modeling_mine.MyModel"}

or a kernel of the hub as its attention (`"attn_implementation": "someone/kernel"`). transformers
imports such code if `trust_remote_code=True`; if the argument is left out, it asks on the terminal
and takes the answer from stdin. So every call here passes False. That alone is not enough, because
some classes of transformers load their parts without passing the argument on: `closed_transformers`
makes transformers raise an error where it would ask, and keeps it off the network.

A folder with an `auto_map` can often be loaded all the same: transformers has many architectures
today that began as code in a checkpoint. `needs_own_code` says whether this one is among them.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from regard.errors import FileError
from regard.models.checkpoints.files import read_json

__all__ = ["check_needs_no_code", "closed_transformers", "refuse_processor_code"]

# The files in which transformers looks for the classes of a tokenizer or of a processor.
_PROCESSOR_FILES = (
    "tokenizer_config.json", "processor_config.json", "preprocessor_config.json",
    "video_preprocessor_config.json", "config.json",
)  # fmt: skip
_ATTENTION_KEYS = ("attn_implementation", "_attn_implementation")
# The settings that `closed_transformers` changes belong to the whole process.
_LOCK = RLock()


@contextmanager
def closed_transformers() -> Iterator[None]:
    """Let transformers neither ask whether to run code nor reach the network inside the block."""
    import huggingface_hub
    from transformers import dynamic_module_utils

    modules: Any = dynamic_module_utils
    constants: Any = huggingface_hub.constants
    with _LOCK:
        seconds, offline = modules.TIME_OUT_REMOTE_CODE, constants.HF_HUB_OFFLINE
        # with no time to answer, a question on the terminal becomes a ValueError
        modules.TIME_OUT_REMOTE_CODE, constants.HF_HUB_OFFLINE = 0, True
        try:
            yield
        finally:
            modules.TIME_OUT_REMOTE_CODE, constants.HF_HUB_OFFLINE = seconds, offline


def check_needs_no_code(hf: Any, folder: Path, name: str) -> None:
    """Refuse a checkpoint whose model transformers can build only by running code of the folder."""
    config = read_json(folder / "config.json")
    kernel = _hub_kernel(config)
    if kernel is not None:
        raise _refusal(name, f"its config.json names the kernel {kernel!r}", "AutoModel")
    if _auto_map(config) and needs_own_code(hf, config):
        named = [key for key in _auto_map(config) if re.fullmatch(r"AutoModel\w*", key)]
        auto_class = named[0] if named else "AutoModel"
        raise _refusal(name, "its config.json has an auto_map", auto_class)


def needs_own_code(hf: Any, config: Mapping[str, Any]) -> bool:
    """True if transformers lacks the `model_type` or all `architectures` of a config.json."""
    architectures = config.get("architectures")
    names = {*map(str, architectures)} if isinstance(architectures, list) else set()
    lacks_architecture = bool(names) and names.isdisjoint(dir(hf))
    return str(config.get("model_type")) not in hf.CONFIG_MAPPING or lacks_architecture


def refuse_processor_code(folder: Path, name: str) -> None:
    """Raise if a file of the folder names code for a tokenizer or a processor.

    It is called when transformers could load neither from the folder without such code.
    """
    for file in _PROCESSOR_FILES:
        auto_map = _auto_map(read_json(folder / file)) if (folder / file).is_file() else {}
        if any("AutoModel" not in key and key != "AutoConfig" for key in auto_map):
            raise _refusal(name, f"its {file} has an auto_map", "AutoModel")


def _auto_map(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The Auto classes of transformers for which a JSON file names code of its own."""
    auto_map = config.get("auto_map")
    if isinstance(auto_map, list):  # an older form, for tokenizers only
        return {"AutoTokenizer": auto_map}
    return auto_map if isinstance(auto_map, dict) else {}


def _hub_kernel(config: Any) -> str | None:
    """The kernel of the hub ("owner/name") that a config or a config in it names as attention."""
    if not isinstance(config, dict):
        return None
    for key, value in config.items():
        names = value.values() if isinstance(value, dict) else (value,)
        if key in _ATTENTION_KEYS and any("/" in str(name) for name in names):
            return next(str(name) for name in names if "/" in str(name))
        inner = _hub_kernel(value)
        if inner is not None:
            return inner
    return None


def _refusal(name: str, reason: str, auto_class: str) -> FileError:
    """The error of a checkpoint that wants code to be run, with the way to load it in Python."""
    return FileError(
        f"{name} wants to run code of its own ({reason}), which regard never does; if you trust "
        f"it, load it in Python and pass the model: model = transformers.{auto_class}."
        f"from_pretrained({name!r}, trust_remote_code=True); "
        "regard.capture(model, tokenizer, text)"
    )
