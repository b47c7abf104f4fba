"""Any model by its name: `load` gives the model, what reads its inputs, and what it can do.

A name is that of a model shipped with regard (`regard models` lists them), the path of a folder, or
a name on the Hugging Face hub. Two ways lead to a model, and `load` chooses:

1. `models.from_pretrained` builds it of regard's own classes, for folders that regard wrote and
   for the families Marian, BART, mBART, GPT-2, Llama, BERT and ViT of transformers. These models
   decode faster and can be kept in int8.
2. Every other architecture, and a setting that our classes lack, goes to the class of transformers
   that the checkpoint's config names, if transformers is installed. Code of a checkpoint is never
   run.

Either way the result is one `LoadedModel`, on which a caller can rely without asking for classes:

>>> import regard
>>> loaded = regard.load("en-zh-transformer", device="cpu")
>>> loaded
LoadedModel('en-zh-transformer', Transformer, translates, context_length=1024)
>>> trace = regard.capture(loaded.model, loaded.processor, "I love you", generate=True)

Where what is: `loaded_model` has `load`; `remote_code` finds code that a folder wants to run and
keeps transformers from running it; `abilities` tells what a model can do; `devices` finds a device
by name; `pictures` reads image files and makes pixels of them; `descriptions` tells what the files
of a folder say about its model without loading it; `local_models` lists the models that are shipped
or in the hub's cache.
"""

from regard.loading.descriptions import ModelDescription, describe_model, find_models
from regard.loading.devices import find_device
from regard.loading.loaded_model import LoadedModel, load
from regard.loading.local_models import cached_models, describe_models_here, find_model_folder
from regard.loading.pictures import is_picture, page_picture, read_picture
from regard.loading.text_length import fit_text

__all__ = [
    "LoadedModel",
    "ModelDescription",
    "cached_models",
    "describe_model",
    "describe_models_here",
    "find_device",
    "find_model_folder",
    "find_models",
    "fit_text",
    "is_picture",
    "load",
    "page_picture",
    "read_picture",
]
