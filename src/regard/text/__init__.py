"""Every sentence that `regard` shows to a person, in English and Chinese, behind one function.

Pages, pictures, findings and commands name a sentence by its key and fill in their values:

>>> from regard.text import say
>>> say("caption.head", "en", site="decoder.layers.1.cross", head=3)
'decoder.layers.1.cross, head 3.'
>>> say("caption.head", "zh", site="decoder.layers.1.cross", head=3)
'decoder.layers.1.cross，第 3 头。'

The sentences are data: one JSON file of this folder for each area, in the form
`{"key": {"en": "...", "zh": "..."}}`. A key belongs to one area only, so `say` needs no area.

    page.json       labels, hints and help of the interactive page
    views.json      names of the kinds of view, and captions below pictures
    findings.json   headings around findings, short names of the checks
    diagnosis.json  what each check says: sentence, meaning, remedy
    tables.json     tables of numbers as pages of their own
    survey.json     measures of attention heads, their table and page
    commands.json   what the command line prints

The page carries the sentences of three areas with it, because it changes its language without
Python: `sentences("page", "views", "findings")`. Its TypeScript fills them in by the same rule
(front/src/text.ts), so sentences of these areas have plain placeholders, `{head}`, while the
others may format numbers, `{value:.1%}`.

To add a sentence, write it in both languages into the file of its area and call `say` with its
key. The tests refuse a key without Chinese, with other placeholders in Chinese than in English,
or that nothing uses. Error messages are English and stay where they are raised; texts about a
mechanism stay in its catalog entry.
"""

from regard.text.sentences import LANGUAGES, say, sentences, template

__all__ = ["LANGUAGES", "say", "sentences", "template"]
