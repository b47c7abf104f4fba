"""What commands print in the terminal: tables and texts built with rich.

A command imports the module that it needs when it runs, because importing rich takes longer than
showing a help page. `number_tables` fits tables of numbers into any width; the other modules are
named for what they print: the `explanation` of a text, the `catalog` of mechanisms, descriptions of
`models`, and the progress of `training`.
"""
