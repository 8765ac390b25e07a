"""Tables of the command line."""

from collections.abc import Collection

from rich.table import Table


def text_grid(*names: str, right: Collection[str] = ()) -> Table:
    """A table without lines.

    Numbers are on the right and stay whole; texts are folded where a terminal is narrow, never cut.
    """
    grid = Table(box=None, pad_edge=False)
    for name in names:
        number = name in right
        grid.add_column(name, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return grid
