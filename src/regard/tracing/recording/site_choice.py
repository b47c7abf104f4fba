"""Which sites and heads are looked at: patterns of module paths, and heads for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from regard.errors import InputError

SitePatterns = str | Sequence[str] | Mapping[str, int | Sequence[int]] | None


@dataclass(frozen=True)
class SiteChoice:
    """Patterns of sites, each with the heads that are wanted there; None is all of them.

    >>> from regard.tracing.recording.site_choice import Choice
    >>> choice = Choice.of({"*.h.5.*": [3, 1], "*.h.*": 1})
    >>> choice.heads("transformer.h.5.attn")
    (3, 1)
    """

    wanted: tuple[tuple[str, tuple[int, ...] | None], ...]

    @classmethod
    def of(cls, sites: SitePatterns) -> "SiteChoice":
        """The choice that a caller has written as a pattern, patterns, or heads by pattern."""
        if sites is None:
            return cls((("*", None),))
        if isinstance(sites, str):
            return cls(((sites, None),))
        if isinstance(sites, Mapping):
            return cls(
                tuple((pattern, _numbers(pattern, heads)) for pattern, heads in sites.items())
            )
        patterns = tuple(sites) if isinstance(sites, Sequence) else ()
        if not patterns or not all(isinstance(each, str) for each in patterns):
            raise InputError(
                "expected patterns of sites such as '*.h.5.*', or a mapping from patterns to "
                f"heads, got {sites!r}"
            )
        return cls(tuple((pattern, None) for pattern in patterns))

    def fits(self, site: str) -> bool:
        """Whether the site is one of those chosen."""
        return any(fnmatchcase(site, pattern) for pattern, _ in self.wanted)

    def heads(self, site: str) -> tuple[int, ...] | None:
        """The heads that are wanted at a site, each once; None is all of them."""
        found = [heads for pattern, heads in self.wanted if fnmatchcase(site, pattern)]
        if any(heads is None for heads in found):
            return None
        return tuple(dict.fromkeys(head for heads in found for head in heads or ()))

    def check(self, sites: Iterable[str]) -> None:
        """Raise an InputError if a pattern fits none of the sites that were seen."""
        sites = list(sites)
        for pattern, _ in self.wanted:
            if not any(fnmatchcase(site, pattern) for site in sites):
                raise InputError(
                    f"no site fits {pattern!r}; the model attended at {', '.join(sites)}"
                )


def _numbers(pattern: str, heads: int | Sequence[int]) -> tuple[int, ...]:
    numbers = (heads,) if isinstance(heads, int) else tuple(heads)
    if not numbers or not all(isinstance(each, int) for each in numbers):
        raise InputError(
            f"expected one or more numbers of heads for {pattern!r}, got {heads!r}; a pattern by "
            "itself chooses all heads"
        )
    return numbers
