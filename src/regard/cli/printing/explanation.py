"""The explanation of a text in the terminal: word vectors, then a table for each of three steps."""

from collections.abc import Iterable, Iterator

from rich.console import Console, RenderableType
from rich.text import Text
from torch import Tensor

from regard.cli.printing.catalog import in_language
from regard.cli.printing.number_tables import (
    NumberTable,
    format_number,
    table_of_first_columns,
    table_with_bars,
    tables_of_all_columns,
)
from regard.models.text_explanation import TextExplanation
from regard.text import say
from regard.unicode import replace_controls

__all__ = ["label_words", "print_explanation"]


def print_explanation(
    explanation: TextExplanation, language: str, console: Console, *, one_word: bool
) -> None:
    """Print the steps of one query with its keys in rows, or of all words as matrices."""
    printer = _ExplanationPrinter(explanation, language, console.width)
    steps = printer.steps_of_one_word() if one_word else printer.steps_of_every_word()
    for part in (*printer.introduction(), *steps):
        console.print(part)


def label_words(words: list[str]) -> list[str]:
    """The words as a table names them: one that occurs again carries its position.

    >>> label_words(["the", "cat", "the"])
    ['the:1', 'cat', 'the:3']
    """
    return [
        f"{replace_controls(word)}:{place}" if words.count(word) > 1 else replace_controls(word)
        for place, word in enumerate(words, start=1)
    ]


class _ExplanationPrinter:
    """The parts of the output, top to bottom, in one language and width."""

    def __init__(self, explanation: TextExplanation, language: str, width: int) -> None:
        self.explanation, self.language, self.width = explanation, language, width
        self.steps, self.labels = explanation.steps, label_words(explanation.words)
        self.query = explanation.queries[0]

    def introduction(self) -> Iterator[RenderableType]:
        """The mechanism, where the vectors come from, and the vectors."""
        explanation, language = self.explanation, self.language
        entry, dim = explanation.entry, explanation.vectors.shape[1]
        yield Text.assemble((entry.name, "bold"), ": ", in_language(entry.formula, language))
        if explanation.vectors_file is None:
            yield Text(say("explain.random-vectors", language, dim=dim, seed=explanation.seed))
        else:
            path = explanation.vectors_file
            yield Text(say("explain.file-vectors", language, dim=dim, path=path))
        if explanation.untrained:
            yield Text(say("explain.untrained", language, name=entry.name, seed=explanation.seed))
        yield Text(f"\n{say('explain.vectors', language)}", style="bold")
        yield from self.vector_table(explanation.vectors)

    def steps_of_one_word(self) -> Iterator[RenderableType]:
        """The steps of one query, with a row for each word that it attends to."""
        query, steps, formulas = self.query, self.steps, self.explanation.formulas
        name = say("explain.quoted", self.language, word=self.labels[query])
        yield from self.heading(1, formulas.similarity, name)
        similarities = [[format_number(e)] for e in steps.similarities[query].tolist()]
        yield from tables_of_all_columns(self.table(["e"], similarities), self.width)
        yield from self.heading(2, formulas.weights, name)
        weights = [[cell] for cell in self.weight_cells(query)]
        table = self.table(["α"], weights)
        yield table_with_bars(table, steps.weights[query].tolist(), self.width)
        yield from self.heading(3, formulas.context, name)
        yield from self.vector_table(steps.weighted_values[query], steps.context[query])

    def steps_of_every_word(self) -> Iterator[RenderableType]:
        """The steps of all words, with a row for each query and a column for each key."""
        formulas, every = self.explanation.formulas, say("explain.every-word", self.language)
        yield from self.heading(1, formulas.similarity, every)
        rows = self.steps.similarities.tolist()
        yield from self.matrix([[format_number(e) for e in row] for row in rows])
        yield from self.heading(2, formulas.weights, every)
        yield from self.matrix([self.weight_cells(query) for query in range(len(self.labels))])
        yield from self.heading(3, formulas.context, every)
        yield from self.vector_table(self.steps.context)

    def heading(self, step: int, formula: str, query: str) -> Iterator[RenderableType]:
        """What a step does, and its formula."""
        title = say(f"explain.step.{step}", self.language, query=query)
        yield Text(f"\n{title}", style="bold")
        yield Text(f"  {in_language(formula, self.language)}", style="cyan")

    def weight_cells(self, query: int) -> list[str]:
        """The weights of one query as text; the word "masked" for a masked key."""
        row = zip(self.steps.weights[query].tolist(), self.steps.seen[query].tolist(), strict=True)
        masked = say("explain.masked", self.language)
        return [format_number(weight) if seen else masked for weight, seen in row]

    def vector_table(self, rows: Tensor, total: Tensor | None = None) -> Iterator[RenderableType]:
        """A vector for each word, with as many numbers of it as fit, and their sum."""
        cells = [[format_number(x) for x in row] for row in rows.tolist()]
        last = None if total is None else [format_number(x) for x in total.tolist()]
        headings = [str(place) for place in range(1, rows.shape[1] + 1)]
        table, hidden = table_of_first_columns(self.table(headings, cells, last), self.width)
        yield table
        if hidden:
            yield Text(say("explain.hidden-numbers", self.language, hidden=hidden), style="dim")

    def matrix(self, rows: list[list[str]]) -> Iterator[RenderableType]:
        """A column for each word, in as many tables as the width demands, with gaps between."""
        tables: Iterable[RenderableType] = tables_of_all_columns(
            self.table(self.labels, rows), self.width
        )
        for index, table in enumerate(tables):
            if index:
                yield Text()
            yield table

    def table(
        self, headings: list[str], rows: list[list[str]], last: list[str] | None = None
    ) -> NumberTable:
        """A table with a row for each word, and below them the row `last` of their sum."""
        sums = None if last is None else (say("explain.context", self.language), last)
        return NumberTable(say("explain.word", self.language), self.labels, headings, rows, sums)
