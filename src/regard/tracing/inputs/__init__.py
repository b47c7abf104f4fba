"""From a text, a picture or a sound to the arguments of a model, and from token ids to labels.

`capture` (in tracing/capture.py) calls these parts in turn. For a translation with a target,

    regard.capture(model, tokenizer, "我 爱 中国", target="I love China")

the data go this way:

1. `reader.InputReader` decides what the input is (a text, a pair of texts, an image, a sound,
   arguments of the processor, or tensors) and calls the tokenizer or processor. The result is a
   `ModelInputs`: the arguments `{"input_ids": [[5, 9, 7, 2]], "attention_mask": [[1, 1, 1, 1]]}`
   and the `Tokens('我', '爱', '中国', '</s>')`.
2. `runner.ModelRunner` keeps the arguments that the model's forward takes and moves them to the
   model's device. As there is a target, it adds `decoder_input_ids`, which is the target shifted to
   the right: `<s> I love China`. Without a target an encoder-decoder generates, by way of
   `generation.generate_ids`.
3. The model runs inside `watch`, without dropout and gradients. Then the runner gives `watch` the
   `TokenLabels`: "source" and "target" tokens of each example and, after beam search, which row of
   the batch the kept hypothesis had at each step.

`example.py` does the same for one example at a time, for studies that run a model again with
changed arguments: `prepare_example`, `run_forward`, `trace_example`.

The labels come from the tokenizer. `token_names.TokenNamer` turns ids into `Tokens` with texts,
offsets and words. Tokenizers spell their pieces in different ways ("Ġlove", "▁love", "##ing",
"<0xE6>"); `spelling.py` finds out which way by asking the tokenizer to join a few pieces, and makes
readable text of them. A character that is spread over three byte pieces is shown as 我[1/3],
我[2/3], 我[3/3]. `encodings.py` reads offsets and words from what a tokenizer returns.
"""
