"""A picture for each page of results that has tables alone: dots and intervals, drawn from the page's own table.

`python -m studies.tables.pictures [--pages docs/results]` reads the tables of the pages in PICTURES and writes, in a
folder of each page's name, an SVG of its name. Run it whenever one of these tables has changed; a test asks for it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
from pathlib import Path
from typing import NamedTuple

from batfill.base.files import make_folder, write_text
from batfill_pages.palette import LIGHT, REST
from studies.tables.first_tries_figures import DRAWN

NUMBER = r"-?[\d,]*\.?\d+"
VALUE = re.compile(rf"({NUMBER})(?: \(({NUMBER})(?: to |-)({NUMBER})\))?")
HOURS_A_DAY = 24
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)  # of a logarithmic axis


class Dot(NamedTuple):
    """A value with its interval, if there is one."""

    value: float
    low: float | None = None
    high: float | None = None


class Picture(NamedTuple):
    """Series of dots, one for each label, on one axis."""

    axis: str
    labels: list[str]
    series: dict[str, list[Dot]]
    logarithmic: bool = False
    at: float | None = 1  # where the reference is

    @property
    def digest(self) -> str:
        """What the picture shows, in few letters."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def tables_of(page):
    """The tables of a page, each a list of rows of cells."""
    found, rows = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip().strip("`") for cell in line.strip()[1:-1].split("|")])
        elif rows:
            found.append(rows[:1] + rows[2:])
            rows = []
    return found


def table_with(page, *names):
    """The head and the rows of the first table that has all of these as columns, or in the first two cells of rows."""
    for head, *rows in tables_of(page):
        if set(names) <= {*head, *(cell for row in rows for cell in row[:2])}:
            return head, rows
    raise ValueError(f"no table has {', '.join(names)}")


def dot_of(cell):
    """A cell such as `0.95 (0.83 to 1.10), 0.4870`."""
    numbers = VALUE.match(cell).groups()
    return Dot(*(None if number is None else float(number.replace(",", "")) for number in numbers))


def rows_named(page, names):
    """The columns of the first table with these rows, and a series for each of them."""
    head, rows = table_with(page, *names)
    by_name = {row[0]: row[1:] for row in rows}
    return head[1:], {shown: [dot_of(cell) for cell in by_name[name]] for name, shown in names.items()}


def fidelity(page):
    """Simulated over logged mean waits, on the header's machine and nearest to the site."""
    head, rows = table_with(page, "replay", "simulated / logged")
    ratio, first = head.index("simulated / logged"), [place for place, row in enumerate(rows) if row[0]]
    last = [place - 1 for place in (*first[1:], len(rows))]
    places = {"header's machine": first, "machine that ran, and what the site does besides": last}
    series = {name: [dot_of(rows[place][ratio]) for place in each] for name, each in places.items()}
    return Picture("simulated mean wait over the logged one", [rows[place][0] for place in first], series)


def waits_by_share(page, names, shares, axis):
    """Mean waits by log, at these shares of the power or the energy."""
    head, rows = table_with(page, *names)
    shown = [row for row in rows if row[1] in shares]
    series = {name: [dot_of(row[head.index(column)]) for row in shown] for column, name in names.items()}
    return Picture(axis, [f"{row[0]}, {row[1]}" for row in shown], series, logarithmic=True, at=None)


def power(page):
    """Without a cap in the evenings, and with it if watts are known or not."""
    names = {"none": "no cap", "announced": "a cap, watts known", "busy watts": "a cap, busy watts assumed"}
    return waits_by_share(page, names, ("80%", "70%"), "FCFS's mean wait, hours; cap as a share of full power")


def power_budgets(page):
    """The same energy in a month by a constant cap, and by a balance."""
    names = {"constant cap": "constant cap", "budget": "budget", "head-holds": "budget, head-holds"}
    return waits_by_share(
        page, names, ("90%", "80%"), "FCFS's mean wait, hours; energy as a share of what jobs draw without a budget"
    )


def predictions(page):
    """A prediction in the whole decision, and in the queue's order alone."""
    names = {"easy++, all": "EASY++ in the whole decision", "easy++, order": "EASY++ in the order alone"}
    labels, series = rows_named(page, names)
    return Picture("slowdown over that with users' requests", labels, series, logarithmic=True)


def rl(page):
    """A network over SAF, by test."""
    head, rows = table_with(page, "test", "the network", "fcfs")
    series = {
        shown: [dot_of(row[head.index(name)]) for row in rows]
        for name, shown in {"the network": "the network", "fcfs": "FCFS"}.items()
    }
    return Picture("slowdown over SAF's, 100 sequences", [row[0] for row in rows], series)


def tuning(page):
    """What was searched for, over SAF."""
    names = {"w*": "best of each week, in hindsight", "w*train": "best of the past weeks", "fcfs": "FCFS"}
    labels, series = rows_named(page, names)
    return Picture("slowdown over SAF's, in later weeks", labels, series)


def what_we_found(page):
    """The longest waits under pure policies without a threshold."""
    head, rows = table_with(page, "log", "FCFS", "SAF", "SPF")
    days = {
        name: [Dot(float(re.search(r"longest ([\d,]+)", row[at])[1].replace(",", "")) / HOURS_A_DAY) for row in rows]
        for at, name in enumerate(head[1:], start=1)
    }
    return Picture("longest wait, days", [row[0] for row in rows], days, logarithmic=True, at=None)


def orders(page):
    """What each order of the queue does to the slowdown and the longest wait."""
    head, (first, *others) = table_with(page, "queue order", "longest wait", "slowdown")
    units = {"d": HOURS_A_DAY, "h": 1}

    def hours(cell):
        return sum(float(n) * units[unit] for n, unit in re.findall(r"([\d,]+) (d|h)", cell))

    series = {}
    for name, read, shown in (("slowdown", float, "mean bounded slowdown"), ("longest wait", hours, "longest wait")):
        at = head.index(name)
        series[shown] = [Dot(read(row[at]) / read(first[at])) for row in others]
    labels = [re.sub(r"\*| \(`.*", "", row[0]) for row in others]
    return Picture("over that of first come, first served: KTH-SP2, 28,467 jobs", labels, series, logarithmic=True)


# By page, and the file's name if that is another.
PICTURES = {
    "../index orders": orders,
    "fidelity": fidelity,
    "power": power,
    "power budgets": power_budgets,
    "predictions": predictions,
    "rl": rl,
    "tuning": tuning,
    "what-we-found": what_we_found,
}


def draw(picture):
    """The picture as a figure: a row for each label, in it a mark for each series."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    n = len(picture.series)
    figure = Figure(figsize=(7.4, 0.9 + 0.42 * len(picture.labels)), layout="constrained")
    axes = figure.subplots()
    if picture.at is not None:
        axes.axvline(picture.at, color=REST[1], linewidth=0.8)
    looks = zip((REST[1], LIGHT[0], LIGHT[1]) if n > 2 else LIGHT[:2], "sDo", strict=False)
    for k, ((name, dots), (colour, mark)) in enumerate(zip(picture.series.items(), looks, strict=False)):
        places = [i + 0.5 * (k - (n - 1) / 2) / n for i in range(len(dots))]
        for dot, place in zip(dots, places, strict=True):
            if dot.low is not None:
                axes.plot((dot.low, dot.high), (place, place), "-", color=colour, linewidth=1.2)
        axes.plot([dot.value for dot in dots], places, mark, color=colour, markersize=5, label=name)
    if picture.logarithmic:
        axes.set_xscale("log")
        ends = [end for dots in picture.series.values() for dot in dots for end in dot if end is not None]
        axes.set_xticks([at for at in TICKS if min(ends) / 2 <= at <= max(ends) * 2])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(min(ends) / 1.2, max(ends) * 1.2)
    axes.set_yticks(range(len(picture.labels)), picture.labels)
    axes.invert_yaxis()
    axes.grid(axis="x", linewidth=0.4)
    axes.set_xlabel(picture.axis)
    figure.legend(loc="outside upper left", ncols=n, fontsize=8, frameon=False)
    return figure


def main():
    """Write all of them."""
    import matplotlib as mpl

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, default=Path("docs/results"), help="the folder of the pages")
    given = parser.parse_args()
    for name, of in PICTURES.items():
        page, _, file = name.partition(" ")
        picture = of((given.pages / f"{page}.md").read_text())
        text = io.StringIO()
        with mpl.rc_context(DRAWN | {"svg.hashsalt": name}):
            draw(picture).savefig(text, format="svg", metadata={"Date": None, "Description": picture.digest})
        make_folder(given.pages / page)
        path = given.pages / page / f"{file or page}.svg"
        write_text(path, re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text.getvalue()))


if __name__ == "__main__":
    main()
