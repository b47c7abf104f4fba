"""Answers from a knowledge base: triples, questions with answers, or texts.

    regard.answer("姚明有多高？", base="facts.tsv")

1. `entries.py` recognises the kind of base and reads its entries, each with its file and line.
2. `index.py` finds entries that share terms (`terms.py`) with a question by BM25; `base.py` keeps
   the index beside the base and makes it again when a file changed.
3. For triples, `linking.py` finds the subjects that a question names, in any spelling
   (`normalise.py`), and `triples.py` ranks their relations by a Matcher.
   For answers, `sentences.py` ranks what was found by a sentence encoder.
   For texts, a question answering model reads the best passages.
4. `answers.py` makes the result: the answer or "no answer", its source, passage, score and trace.
"""
