"""The values that the packages pass to each other; none of them runs a model or draws a picture.

A `Trace` records what one model did with one example. It has streams of `Tokens`, and one
`AttentionMap` for each site, which is the place in the model that attended:

    <Trace of source (3), target (4): 1 map, 4 heads>
      <cross map 'decoder.layers.0.cross': 4 heads, 3 target rows x 3 source columns, recomputable>

The rows and columns of a map are tokens: an `Axis` names the stream and the positions in it. In
the map above row 0 stands for the start token `<s>`, column 0 for 我, and `produced` says that the
decoder wrote "I" after it had read row 0:

    attention_map = trace["decoder.layers.0.cross"]
    trace.tokens(attention_map.columns)       # Tokens('我', '爱', '中国')
    trace.tokens(attention_map.produced)      # Tokens('I', 'love', 'China')
    attention_map.weights(head=2)             # a tensor of 3 x 3, each row sums to one
    attention_map.row_statistics.entropy      # (head query), exact, without the full weights

The weights come from a source, which depends on the option `keep` of `watch`:

    RecomputableWeights  queries, keys and the logsumexp of each row: any rectangle of weights is
                         computed again, so that a map of 100,000 tokens fits in memory
    DenseWeights         the weights themselves
    SummaryOnly          no weights; statistics and an atlas of pooled cells are all that there is

Attention that cannot be captured is listed in `trace.gaps`, each `Gap` with its reason. A `Finding`
is what a check says about traces: a number, a sentence in each language (`FindingText`) and the
picture that shows it (`FindingView`). A `TaskResult` is what a model answered to a person's input:
its `Candidate`s with their scores, and the trace of each `InputWindow` that the model read.

`tokens.py`, `maps.py`, `sources.py`, `trace.py`, `finding.py` and `task_result.py` define these
values. `map_statistics.py` computes numbers of a map's rows and columns, and `pooling.py` pools
weights into the cells of a picture.
"""

from regard.types.attribution import Attribution, FlowBounds, LeftOut, Occlusion, ValueNorms
from regard.types.finding import Finding, FindingText, FindingView
from regard.types.map_statistics import ReceivedAttention
from regard.types.maps import AttentionMap, Axis
from regard.types.sources import DenseWeights, RecomputableWeights, SummaryOnly, WeightSource
from regard.types.task_result import Candidate, Evidence, InputWindow, TaskResult, TimedWord
from regard.types.tokens import Tokens
from regard.types.trace import Gap, Trace

__all__ = [
    "AttentionMap",
    "Attribution",
    "Axis",
    "Candidate",
    "DenseWeights",
    "Evidence",
    "Finding",
    "FindingText",
    "FindingView",
    "FlowBounds",
    "Gap",
    "InputWindow",
    "LeftOut",
    "Occlusion",
    "ReceivedAttention",
    "RecomputableWeights",
    "SummaryOnly",
    "TaskResult",
    "TimedWord",
    "Tokens",
    "Trace",
    "ValueNorms",
    "WeightSource",
]
