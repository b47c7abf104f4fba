"""Training models by recipes: corpora, batches, tasks, the loop and its checkpoints.

    recipe.py, recipe_file.py   Recipe: every key of the TOML file; load_recipe reads it
    train.py                    train: recipe -> tokenizer, model, loop, finished model
    tasks/                      one file per task: translation, language modelling
    corpora.py, batches.py      files -> pairs or texts -> batches of similar lengths
    loop.py                     Loop: steps, evaluations, checkpoints, events
    losses.py, schedules.py     cross-entropy and REINFORCE; learning rates
    checkpoints.py              step-00001000/ with weights, optimiser and state.json
    distribution.py             torchrun: DDP and FSDP2
    contexts.py                 Ctrl-C is recorded, so that a step is finished and saved first
    events.py, logs.py          what callbacks receive; JSON lines and TensorBoard
    evaluate.py, metrics.py     BLEU, chrF, perplexity of a finished model

An example, `regard.train("recipes/tiny/recipe.toml")`. The recipe says `task = "translation"`, so
`TASKS["translation"]` learns a tokenizer from the training pairs, once, into `folder/tokenizer`.
The model is built from the section [model] with the vocabulary's size. `Loop` then repeats: the
next batch of about `plan.tokens` tokens from `task.batches()`, `task.collate` makes its tensors,
`task.loss` the sum of the losses, one optimiser step, and the event
`Stepped(step=1, loss=6.1, ...)`. Every `plan.evaluate_every` steps `task.evaluate` gives
`Metrics({"loss": 0.3, "bleu": 92.0, "chrf": 95.0}, deciding=95.0)`, and a checkpoint is written to
`folder/checkpoints/step-00000100`. At the end the mean of the newest checkpoints is saved to
`folder/model`, which `regard.from_pretrained` loads. Called again, training resumes where it was.
"""
