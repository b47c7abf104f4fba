"""A survey of watching: every model type of the installed transformers, tiny and random.

For each class the survey asks whether `regard.watch` shows all attention and leaves the outputs as
they are. It builds the model by shrinking its default config, makes inputs from the signature of
`forward`, and compares runs::

    python -m bench.architectures                       all classes, resumed where it ended
    python -m bench.architectures bert gpt2 --again     some types, compared again
    python -m bench.architectures --libraries           models of other libraries
    python -m bench.architectures --table               the table of the rows that there are

One class goes through these files:

    catalog.py       model type -> base class and classes for tasks
    shrink.py        the default config with few layers, heads and tokens, by attribute names
    inputs.py        the signature of forward -> inputs to try: token ids, pictures, sounds ...
    build.py         the first config and inputs with which the model runs
    recorder.py      an independent record of all attention, below torch functions
    compare.py       plain, watched and beside: outputs, maps against the record, gaps
      matching.py      looks for recorded weights in the maps
      mixing.py        changes one position, and looks for modules that spread the change unseen
        follower.py      the modules and operations of a run
        positions.py     at which positions two runs differ
    subject.py       the runs of a class: forward, eager weights, padding, greedy and beam search
    survey.py        all classes in child processes with limits, rows in a file of JSON lines
    libraries.py     models of timm, torchvision, diffusers, torchaudio, x-transformers, PyG ...
      denoisers.py     settings and inputs of those of diffusers
    table.py         verdicts by class and by architecture

`compare(model, run, batch)` takes any PyTorch model, so that other libraries are surveyed with it::

    comparison = compare(model, run, batch=2, perturb=run)      # run = lambda: model(pixels)
    comparison.verdict      # "exact"
    comparison.missed       # recorded attention that is in no map and has no gap
"""
