"""A folder whose Python file writes a marker: no way into regard may run it, or ask to."""

import ast
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import regard
from loading import checkpoints
from regard.cli import main
from regard.errors import FileError, RegardError
from regard.loading.remote_code import closed_transformers

pytestmark = pytest.mark.filterwarnings("ignore")
SOURCE = Path(regard.__file__).parent
REFUSED = r"wants to run code of its own \(.*\), which regard never does; if you trust it, load it"
AUTO_CLASSES = (
    "AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM", "AutoTokenizer", "AutoProcessor", "AutoImageProcessor",
    "AutoFeatureExtractor", "AutoVideoProcessor",
)  # fmt: skip
EVERYTHING = dict.fromkeys(AUTO_CLASSES, "evil.Evil") | {"AutoTokenizer": ["evil.Evil", None]}
UNKNOWN = {"model_type": "evil", "architectures": ["EvilForCausalLM"], "auto_map": EVERYTHING}


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    return checkpoints.foreign("causal", tmp_path_factory.mktemp("code") / "m")


@pytest.fixture
def trap(tmp_path, harmless, monkeypatch):
    """A copy of the folder, whose code writes a marker; asking a question is a failure as well."""
    folder = Path(shutil.copytree(harmless, tmp_path / "trap"))
    code = f"open({str(tmp_path / 'marker')!r}, 'w').write('ran')\nclass Evil: pass\n"
    (folder / "custom_generate").mkdir()
    for file in ("evil.py", "custom_generate/generate.py", "__init__.py"):
        (folder / file).write_text(code)

    def refuse_to_answer(*_):
        (tmp_path / "marker").write_text("asked")
        return "y"

    monkeypatch.setattr("builtins.input", refuse_to_answer)
    yield folder
    assert not (tmp_path / "marker").exists()


def change(folder, file, **settings):
    """Change settings of a JSON file, or write it."""
    path = folder / file
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | settings))


@pytest.mark.parametrize("auto_class", AUTO_CLASSES)
def test_an_unknown_architecture_with_code_is_refused_in_one_sentence(trap, auto_class):
    entry = {auto_class: EVERYTHING[auto_class]}
    change(trap, "config.json", **(UNKNOWN | {"auto_map": entry}))
    with pytest.raises(FileError, match=REFUSED) as caught:
        regard.load(trap)
    model = auto_class if "AutoModel" in auto_class else "AutoModel"
    assert f"transformers.{model}.from_pretrained('{trap}', trust_remote_code=True)" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


def test_a_custom_class_of_a_known_architecture_is_refused_too(trap):
    change(trap, "config.json", architectures=["EvilForCausalLM"], auto_map=EVERYTHING)
    with pytest.raises(FileError, match=REFUSED):
        regard.load(trap)


def test_an_architecture_that_transformers_has_is_loaded_without_the_code(trap):
    change(trap, "config.json", auto_map=EVERYTHING)
    loaded = regard.load(trap, device="cpu")
    assert type(loaded.model).__module__.startswith("transformers.models.gpt_neox")
    assert loaded.tokenizer.encode("I love you")


@pytest.mark.parametrize("auto_map", [["evil.Evil", "evil.Evil"], EVERYTHING])
def test_a_tokenizer_that_transformers_has_is_loaded_without_the_code(trap, auto_map):
    change(trap, "tokenizer_config.json", auto_map=auto_map)
    assert regard.load(trap, device="cpu").tokenizer.encode("I love you")


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "evil.Evil"}),
        ("tokenizer_config.json", {"tokenizer_class": "EvilTokenizer"}),
        ("tokenizer_config.json", {"processor_class": "EvilProcessor", "auto_map": EVERYTHING}),
        ("processor_config.json", {"processor_class": "Evil", "auto_map": EVERYTHING}),
        ("processor_config.json", {"auto_map": EVERYTHING}),
        ("preprocessor_config.json", {"image_processor_type": "Evil", "auto_map": EVERYTHING}),
        ("preprocessor_config.json", {"feature_extractor_type": "Evil", "auto_map": EVERYTHING}),
        ("video_preprocessor_config.json", {"auto_map": EVERYTHING}),
        ("generation_config.json", {"custom_generate": "evil", "auto_map": EVERYTHING}),
        ("config.json", {"tokenizer_class": "evil.Evil", "custom_generate": "evil"}),
        ("config.json", {"architectures": ["AutoModelForCausalLM"], "auto_map": EVERYTHING}),
        ("config.json", {"architectures": ["utils", "Trainer"], "auto_map": EVERYTHING}),
        ("config.json", {"architectures": 5, "model_type": ["gpt_neox"], "auto_map": EVERYTHING}),
    ],
)
def test_whatever_file_names_the_code_it_is_not_run(trap, file, settings):
    change(trap, file, **settings)
    try:
        loaded = regard.load(trap, device="cpu")
    except RegardError:
        return
    assert type(loaded.model).__module__.startswith("transformers.")
    assert type(loaded.processor).__module__.startswith(("transformers.", "builtins"))


def test_a_tokenizer_that_only_the_code_has_is_refused(trap):
    (trap / "tokenizer.json").unlink()
    change(trap, "tokenizer_config.json", tokenizer_class="Evil", auto_map=EVERYTHING)
    with pytest.raises(FileError, match=rf"{REFUSED}") as caught:
        regard.load(trap)
    assert "(its tokenizer_config.json has an auto_map)" in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"attn_implementation": "someone/kernel"},
        {"_attn_implementation": "someone/kernel@main:run"},
        {"attn_implementation": {"": "sdpa", "text_config": "someone/kernel"}},
        {"text_config": {"attn_implementation": "someone/kernel"}},
    ],
)
def test_a_kernel_of_the_hub_is_code_too(trap, settings):
    change(trap, "config.json", **settings)
    with pytest.raises(FileError, match=r"names the kernel 'someone/kernel.*which regard never"):
        regard.load(trap)


def test_a_custom_way_to_generate_is_not_run(trap):
    loaded = regard.load(trap, device="cpu")
    trace = regard.capture(
        loaded.model, loaded.tokenizer, "I love you", generate={"max_new_tokens": 2}
    )
    assert trace.maps


def test_where_transformers_forgets_the_argument_it_does_not_ask(trap):
    import transformers

    change(trap, "config.json", **UNKNOWN)
    with closed_transformers(), pytest.raises(ValueError, match="execute custom code"):
        transformers.AutoConfig.from_pretrained(trap)


def test_settings_of_transformers_are_as_before_after_loading(trap):
    import huggingface_hub
    from transformers import dynamic_module_utils

    before = (dynamic_module_utils.TIME_OUT_REMOTE_CODE, huggingface_hub.constants.HF_HUB_OFFLINE)
    change(trap, "config.json", auto_map=EVERYTHING)
    regard.load(trap)
    assert before == (
        dynamic_module_utils.TIME_OUT_REMOTE_CODE,
        huggingface_hub.constants.HF_HUB_OFFLINE,
    )


def test_an_image_processor_with_code_is_not_run(tmp_path, trap):
    folder = Path(checkpoints.foreign("vit", tmp_path / "seer"))
    shutil.copy(trap / "evil.py", folder)
    change(folder, "preprocessor_config.json", image_processor_type="Evil", auto_map=EVERYTHING)
    assert regard.load(folder, device="cpu").processor is not None


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (self.marker, "w")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_not_unpickled_by_transformers(tmp_path, trap, name):
    (trap / "model.safetensors").unlink()
    (trap / name).write_bytes(pickle.dumps({"weight": Payload(str(tmp_path / "marker"))}))
    with pytest.raises(FileError, match="transformers cannot load"):
        regard.load(trap)


@pytest.mark.parametrize(
    "arguments",
    [
        ("look", "a b", "--model", "{}"),
        ("diagnose", "{}", "a b"),
        ("survey", "{}", "{}/config.json"),
        ("evaluate", "{}", "{}/config.json"),
        ("translate", "a b", "--model", "{}"),
        ("generate", "a b", "--model", "{}"),
    ],
)
def test_every_command_refuses_the_code_of_a_folder(trap, arguments):
    change(trap, "config.json", **UNKNOWN)
    result = CliRunner().invoke(main, [part.format(trap) for part in arguments], input="y\ny\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "wants to run code of its own" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["info", "models"])
def test_commands_that_describe_a_folder_run_nothing_of_it(trap, command):
    change(trap, "config.json", **UNKNOWN)
    assert CliRunner().invoke(main, [command, str(trap)], input="y\n").exit_code == 0


def test_a_yes_on_stdin_of_the_process_runs_nothing(trap):
    change(trap, "config.json", **UNKNOWN)
    command = [sys.executable, "-m", "regard", "look", "a b", "--model", str(trap)]
    ran = subprocess.run(command, input="y\ny\n", text=True, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "wants to run code of its own" in ran.stderr


def calls(ending):
    """Every call in the package whose function ends so: where it is, and its keywords."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(ending):
                place = f"{file.relative_to(SOURCE)}:{node.lineno}"
                yield place, {word.arg: ast.unparse(word.value) for word in node.keywords}


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (".from_pretrained", {"trust_remote_code": "False", "local_files_only": "True"}),
        ("torch.load", {"weights_only": "True"}),
    ],
)
def test_every_call_that_could_run_code_forbids_it(function, settings):
    places = dict(calls(function))
    assert places
    assert [place for place, words in places.items() if not settings.items() <= words.items()] == []


def test_nothing_is_unpickled():
    assert [*calls("pickle.load"), *calls("pickle.loads"), *calls("Unpickler")] == []
