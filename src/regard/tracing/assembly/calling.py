"""What calls are called: the kind of each, and a name of its own for a site that attends again."""

from collections import Counter
from dataclasses import replace

from regard.tracing.assembly.stacking import Stack
from regard.tracing.calls.seen import Seen
from regard.types.maps import Kind


def kind_of(call: Seen) -> Kind:
    """Cross where keys are of another stream; decoder where no query sees a later key."""
    if not call.looks_at_itself:
        return "cross"
    _, _, queries, keys = call.sizes
    return "decoder" if call.is_causal or queries < keys else "encoder"


def named(stacks: list[Stack]) -> list[Stack]:
    """A site that attends again, otherwise than by going on, is path#1."""
    count = Counter[str]()
    found = []
    for each in stacks:
        site = each.call.site
        again = count[site]
        count[site] += 1
        call = replace(each.call, site=f"{site}#{again}") if again else each.call
        found.append(replace(each, call=call))
    return found
