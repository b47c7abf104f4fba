"""Statistics of every head over many texts, without a trace of any of them.

A survey runs a model over thousands of sentences and wants, for each head, the mean and standard
deviation of its entropy, its mass on the first token, its mean distance and so on. Traces of all
sentences would not fit in memory, so each batch is reduced to numbers while the model runs:

    runner = CorpusRunner(model, tokenizer, kinds, tokens=4096, longest=None)
    for group in runner.groups(texts):             # texts of similar length, padded together
        statistics = runner.run_group(group)       # a BatchStatistics
        statistics.sites["h.0"].moments            # count, mean, squares by measure and head

`texts.CorpusReader` encodes the texts, truncates them to what the model can read, and finds the
kind of each token (word, punctuation, special ...). `corpus.CorpusRunner` forms batches and runs
them. `collect.collect_statistics` is the block around the model, like `watch`: each attention call
becomes `rows.SiteRows`, the statistics of its rows in every example, with padding left out by
`streams.StreamTokens`. `numbers.example_numbers` averages the rows of an example, so that a long
text counts as much as a short one: 3 examples of a head with the entropies 0.5, 0.7 and 0.9 give

    moments.means  -> 0.7        moments.spread -> 0.2

`moments.Moments` of two batches add up to those of both together, which is how batches, processes
and interrupted surveys are merged.
"""
