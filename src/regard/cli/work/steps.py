"""A lesson drawn in the terminal: the word vectors, then a table for each of the three steps."""

from collections.abc import Iterable, Iterator

from rich.console import Console, RenderableType
from rich.text import Text
from torch import Tensor

from regard.cli.language import say, translated
from regard.cli.work.lesson import Lesson
from regard.cli.work.tables import Grid, bars, beginning, blocks, number
from regard.cli.work.words import named


def show(lesson: Lesson, language: str, console: Console) -> None:
    """Print the lesson: one query in columns, or every word as matrices."""
    drawing = _Drawing(lesson, language, console.width)
    parts = drawing.every_word() if lesson.request.query is None else drawing.one_word()
    for part in (*drawing.opening(), *parts):
        console.print(part)


class _Drawing:
    """The parts of the page, top to bottom, in one language and width."""

    def __init__(self, lesson: Lesson, language: str, width: int) -> None:
        self.lesson, self.language, self.width = lesson, language, width
        self.steps, self.names = lesson.steps, named(lesson.words)
        self.query = lesson.queries[0]

    def say(self, label: str, **values: object) -> str:
        return say(label, self.language, **values)

    def opening(self) -> Iterator[RenderableType]:
        """The mechanism, where the vectors come from, and the vectors."""
        entry, request = self.lesson.entry, self.lesson.request
        yield Text.assemble((entry.name, "bold"), ": ", translated(entry.formula, self.language))
        dim, seed, path = self.lesson.vectors.shape[1], request.seed, request.vectors
        source = "random vectors" if path is None else "given vectors"
        yield Text(self.say(source, dim=dim, seed=seed, path=path))
        if self.lesson.untrained:
            yield Text(self.say("untrained", name=entry.name, seed=seed))
        yield Text(f"\n{self.say('vectors')}", style="bold")
        yield from self.vectors(self.lesson.vectors)

    def one_word(self) -> Iterator[RenderableType]:
        """The steps of one query: a row for each word that it looks at."""
        query, steps, formulas = self.query, self.steps, self.lesson.formulas
        name = self.say("quoted", word=self.names[query])
        yield from self.title("step 1", formulas.similarity, name)
        similarities = [[number(e)] for e in steps.similarities[query].tolist()]
        yield from blocks(self.grid(["e"], similarities), self.width)
        yield from self.title("step 2", formulas.weights, name)
        weights = [[cell] for cell in self.weights(query)]
        yield bars(self.grid(["α"], weights), steps.weights[query].tolist(), self.width)
        yield from self.title("step 3", formulas.context, name)
        yield from self.vectors(steps.weighted_values[query], steps.context[query])

    def every_word(self) -> Iterator[RenderableType]:
        """The steps of every word: a row for each query, a column for each key."""
        formulas, every = self.lesson.formulas, self.say("every word")
        yield from self.title("step 1", formulas.similarity, every)
        similarities = [[number(e) for e in row] for row in self.steps.similarities.tolist()]
        yield from self.apart(blocks(self.grid(self.names, similarities), self.width))
        yield from self.title("step 2", formulas.weights, every)
        weights = [self.weights(query) for query in range(len(self.names))]
        yield from self.apart(blocks(self.grid(self.names, weights), self.width))
        yield from self.title("step 3", formulas.context, every)
        yield from self.vectors(self.steps.context)

    def title(self, label: str, formula: str, query: str) -> Iterator[RenderableType]:
        """What a step does, and its formula."""
        yield Text(f"\n{self.say(label, query=query)}", style="bold")
        yield Text(f"  {translated(formula, self.language)}", style="cyan")

    def weights(self, query: int) -> list[str]:
        """The weights of one query, or that a key is masked."""
        row = zip(self.steps.weights[query].tolist(), self.steps.seen[query].tolist(), strict=True)
        return [number(weight) if seen else self.say("masked") for weight, seen in row]

    def vectors(self, rows: Tensor, total: Tensor | None = None) -> Iterator[RenderableType]:
        """A vector for each word, as many numbers of it as fit, and their sum."""
        cells = [[number(x) for x in row] for row in rows.tolist()]
        last = None if total is None else [number(x) for x in total.tolist()]
        places = [str(place) for place in range(1, rows.shape[1] + 1)]
        table, hidden = beginning(self.grid(places, cells, last), self.width)
        yield table
        if hidden:
            yield Text(self.say("more", hidden=hidden), style="dim")

    def grid(
        self, headings: list[str], rows: list[list[str]], last: list[str] | None = None
    ) -> Grid:
        end = None if last is None else (self.say("context"), last)
        return Grid(self.say("word"), self.names, headings, rows, end)

    def apart(self, tables: Iterable[RenderableType]) -> Iterator[RenderableType]:
        """Tables with an empty line between them."""
        for index, table in enumerate(tables):
            if index:
                yield Text()
            yield table
