"""What a person asks of a model: a class, an answer, a translation, a summary, with the trace.

Each task is one function that returns a `TaskResult`, or a list of them for a list of inputs:

    result = regard.classify("I love this film.", model="./sst2-distilbert")
    result.answer, result.score         # 'POSITIVE', 0.9998
    result.trace                        # the attention of the same run
    regard.view(result)                 # the text, shaded by what the decision attended to

    result = regard.answer("Who wrote it?", context=text, model="./squad-minilm")
    result.answer, result.span          # 'Ada', (17, 20): characters of the context

    result = regard.translate("I love you")
    result.answer, result.score         # '我爱你', -0.11: log-probability per token

    result = regard.summarise(abstract)
    result.answer, result.copied        # a title; 0.7 of its tokens were copied from the text

    result = regard.recognise("cat.png", model="./vit-base-patch16-224")
    result.answer, result.score         # 'tabby, tabby cat', 0.93; the picture shows where

    result = regard.transcribe("talk.flac", model="./whisper-tiny.en")
    result.answer, result.words         # the text; its words, each with its start and end

The path of an input, for "classify" with a review of 900 words and a model that reads 512 tokens:

1. `models.py` loads the model, or takes one that is loaded, and refuses one of another task.
2. `windows.py` splits the text into windows of at most 512 tokens that overlap, cut between words:
   characters 0 to 2,410 and 1,790 to 4,633.
3. `runs.py` runs the windows of all texts in batches, sorted by length. If a trace is wanted the
   run is watched; the logits are those of that run.
4. `classification.py` makes probabilities of the logits of each window and takes their mean,
   weighted by the number of tokens; `answering.py` searches the best spans of all windows.

The result has a trace for each window, and says which one decided (`result.decisive`) and which row
of which map a picture should show first (`result.evidence`, found by `evidence.py`). Pictures are
not drawn here: `regard.views` draws any `TaskResult`.
"""

from regard.tasks.asking import answer
from regard.tasks.classification import classify
from regard.tasks.recognition import recognise
from regard.tasks.summarisation import summarise
from regard.tasks.transcription import transcribe
from regard.tasks.translation import translate

__all__ = ["answer", "classify", "recognise", "summarise", "transcribe", "translate"]
