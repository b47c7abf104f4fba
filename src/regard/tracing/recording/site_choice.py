"""Which sites and heads a caller wants: patterns of module paths, and heads for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from regard.errors import InputError

SitePatterns = str | Sequence[str] | Mapping[str, int | Sequence[int]] | None


@dataclass(frozen=True)
class SiteChoice:
    """Patterns of sites, each with its chosen heads; None chooses all heads.

    >>> from regard.tracing.recording.site_choice import SiteChoice
    >>> choice = SiteChoice.of({"*.h.5.*": [3, 1], "*.h.*": 1})
    >>> choice.heads("transformer.h.5.attn")
    (3, 1)
    """

    patterns: tuple[tuple[str, tuple[int, ...] | None], ...]

    @classmethod
    def of(cls, sites: SitePatterns) -> "SiteChoice":
        """The choice that a caller wrote as a pattern, several patterns, or heads by pattern."""
        if sites is None:
            return _EVERYTHING
        if isinstance(sites, str):
            return cls(((sites, None),))
        if isinstance(sites, Mapping):
            return cls(
                tuple((pattern, _head_numbers(pattern, heads)) for pattern, heads in sites.items())
            )
        patterns = tuple(sites) if isinstance(sites, Sequence) else ()
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise InputError(
                "expected patterns of sites such as '*.h.5.*', or a mapping from patterns to "
                f"heads, got {sites!r}"
            )
        return cls(tuple((pattern, None) for pattern in patterns))

    def includes(self, site: str) -> bool:
        """True if a pattern matches the site."""
        return self is _EVERYTHING or any(
            fnmatchcase(site, pattern) for pattern, _ in self.patterns
        )

    def heads(self, site: str) -> tuple[int, ...] | None:
        """The chosen heads of a site, each once; None for all."""
        if self is _EVERYTHING:
            return None
        matching = [heads for pattern, heads in self.patterns if fnmatchcase(site, pattern)]
        if any(heads is None for heads in matching):
            return None
        return tuple(dict.fromkeys(head for heads in matching for head in heads or ()))

    def check(self, sites: Iterable[str]) -> None:
        """Raise an InputError if a pattern matches none of the sites that attended."""
        sites = list(sites)
        for pattern, _ in self.patterns:
            if not any(fnmatchcase(site, pattern) for site in sites):
                raise InputError(
                    f"no site fits {pattern!r}; the model attended at {', '.join(sites)}"
                )


_EVERYTHING = SiteChoice((("*", None),))  # the usual choice, which no site need be compared with


def _head_numbers(pattern: str, heads: int | Sequence[int]) -> tuple[int, ...]:
    """The heads of a pattern as a tuple; an InputError if they are no numbers."""
    numbers = (heads,) if isinstance(heads, int) else tuple(heads)
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise InputError(
            f"expected one or more numbers of heads for {pattern!r}, got {heads!r}; a pattern by "
            "itself chooses all heads"
        )
    return numbers
