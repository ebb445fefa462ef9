"""What mkdocs cannot know: the commands' reference, the public names of Python, notebooks, and live report pages."""

from __future__ import annotations

import io
import json
import math
import re
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from inspect import cleandoc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

import batfill
from batfill import PLACES
from batfill.base import version
from batfill.cli import main
from batfill.cli.app import app

COMMANDS = "<!-- the commands -->"
NAMES = "<!-- the public names -->"
RESULT = re.compile(r"^<!-- the result -->\n((?:\|.*\n)+)", re.MULTILINE)
UNITS_S = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
TICKS_S = {"3 d": 3 * 86_400, "10 d": 10 * 86_400, "1 month": 30 * 86_400}
# The log of the live pages, and what is replayed on it: the home's five orders.
LOG = "half-a-year.swf.gz"
GENERATE = f"workload generate --out {LOG} --jobs 13000 --procs 128 --load 0.5 --users 40 --seed 1"
ORDERS = {
    "fcfs": "--policy fcfs",
    "spf": "--policy spf",
    "saf": "--policy saf",
    "saf-6h": "--policy saf --threshold 6h",
    "first-tries": "--preset first-tries",
}
# Words that find a page before all others.
TAGS = {"how-to/what-if.md": ["what-if"]}
NOTEBOOK = re.compile(r"^<!-- the notebook (\S+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with the reference in the place kept for it, and without the comments above blocks."""
    if page.file.src_uri.startswith(("results/", "reference/python/")):
        page.meta["search"] = {"boost": 0.2}  # long pages of figures and names: guides are found first
    page.meta["tags"] = TAGS.get(page.file.src_uri, [])
    markdown = re.sub(r"^<!-- (before|needs|not run): .*-->\n", "", markdown, flags=re.MULTILINE)
    for name, (module, its_name) in PLACES.items():
        heading = f"    options: {{heading: bf.{name}, toc_label: bf.{name}}}"
        place = re.escape(f"{module}.{its_name}")
        markdown = re.sub(rf"^::: {place}$", rf"\g<0>\n{heading}\n", markdown, flags=re.MULTILINE)
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, "\n".join(reference(app, "batfill")))
    if NAMES in markdown:
        markdown = markdown.replace(NAMES, public_names())
    if found := RESULT.search(markdown):
        markdown = markdown.replace(found[0], result_table(found[1]))
    if found := NOTEBOOK.search(markdown):
        markdown = markdown.replace(found[0], cells(Path(page.file.abs_src_path).with_name(found[1])))
    return markdown


def on_post_build(config: Any, **_: Any) -> None:
    """Write the live pages: a comparison, an answer to what if, and a run, on a log that is generated."""
    live = Path(config["site_dir"]).resolve() / "live"
    live.mkdir(exist_ok=True)
    version.DOCUMENTATION = ".."  # from the live pages
    with TemporaryDirectory() as folder, chdir(folder):
        for command in (
            GENERATE,
            *(f"replay {LOG} {options} --out {name}" for name, options in ORDERS.items()),
            f"report {' '.join(ORDERS)} --out comparison.html",
            "report saf --out run.html",
            f"what-if {LOG} --out what-if.html",
        ):
            run(command.split())
        for page in Path().glob("*.html"):
            (live / page.name).write_bytes(page.read_bytes())


def run(arguments: list[str]) -> None:
    """Run a command, which must succeed, without what it prints."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"batfill {' '.join(arguments)}: {said.getvalue()}") from ended


def result_table(rows: str) -> str:
    """A table of queue order, mean wait, longest wait and more, with bars and dots; the bold row is advised."""
    head, _, *lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in rows.splitlines()]
    longest = [seconds(cells[2]) for cells in lines]
    low, high = math.log(min(longest) / 2), math.log(max(longest) * 1.5)
    most = max(seconds(cells[1]) for cells in lines)

    def place(at_s: float) -> str:
        return f"{100 * (math.log(at_s) - low) / (high - low):.1f}%"

    ticks = "".join(
        f'<span style="left:{place(at_s)}">{name}</span>'
        for name, at_s in TICKS_S.items()
        if low < math.log(at_s) < high
    )
    head[2] += f'<span class="ticks" aria-hidden="true">{ticks}</span>'
    html = ["<thead><tr>", *(f'<th scope="col">{cell}</th>' for cell in head), "</tr></thead><tbody>"]
    for order, mean, worst, *others in lines:
        name, _, options = order.replace("**", "").partition(" (`--")
        code = " ".join(f"<span>--{option}</span>" for option in options.strip("`)").split(" --"))
        flag = ' class="pays"' if "▲" in worst else ""
        advised = ' class="advised"' if "**" in order else ""
        html += [
            f'<tr{advised}><th scope="row">{name}<code>{code}</code></th>',
            f'<td>{kept(mean)}<i class="bar" style="width:{seconds(mean) / most:.0%}"></i></td>',
            f'<td{flag}>{kept(worst)}<span class="track"><i style="left:{place(seconds(worst))}"></i></span></td>',
            *(f"<td>{kept(one)}</td>" for one in others),
            "</tr>",
        ]
    table = "".join(html).replace("\n", "")
    return f'<div class="home-scroll"><table class="result">{table}</tbody></table></div>\n'


def seconds(duration: str) -> float:
    """A duration such as "1 h 53 min" in seconds."""
    return sum(int(number) * UNITS_S[unit] for number, unit in re.findall(r"(\d+) (d|h|min|s)\b", duration))


def kept(text: str) -> str:
    """The text on one line."""
    return text.replace(" ", "&nbsp;")


def reference(group: click.Group, path: str) -> list[str]:
    """A section of Markdown for each command of the group, in the order of its help."""
    context = click.Context(group, info_name=path)
    lines = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        whole = f"{path} {name}"
        lines += [f"{'#' * (whole.count(' ') + 1)} {whole}", ""]
        inside = click.Context(command, info_name=whole)
        lines += [prose(command.help or ""), ""]
        if isinstance(command, click.Group):
            lines += reference(command, whole)
            continue
        if command.context_settings.get("ignore_unknown_options"):  # it reads its arguments itself
            lines += ["```text", printed([*whole.split()[1:], "--help"]), "```", ""]
            continue
        lines += ["```text", command.get_usage(inside).removeprefix("Usage: "), "```", ""]
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        records = [record for option in options if (record := option.get_help_record(inside))]
        if records:
            lines += ["| option | meaning |", "|---|---|"]
            lines += [f"| `{names}` | {escaped(help_)} |" for names, help_ in records]
            lines += [""]
    return lines


def public_names() -> str:
    """The public names as `help(batfill)` lists them, each but tables of policies with a link to its section."""
    rows = []
    for name, summary in re.findall(r"^    (\w+) +(.*)$", batfill.__doc__ or "", re.MULTILINE):
        place = ".".join(PLACES[name])
        link = f"[`bf.{name}`][{place}]" if callable(getattr(batfill, name)) else f"`bf.{name}`"
        rows.append(f"| {link} | {summary} |")
    return "\n".join(["| name | what it is |", "| --- | --- |", *rows])


def cells(path: Path) -> str:
    """A notebook as Markdown but for its first cell, the title: texts, code, and what is stored as printed by it."""
    parts = []
    for cell in json.loads(path.read_text())["cells"][1:]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        outputs = "".join(line for output in cell["outputs"] for line in output["text"])
        if outputs:
            parts.append(f"```text\n{outputs}```")
    return "\n\n".join(parts)


def printed(arguments: list[str]) -> str:
    """The output of a command."""
    out = io.StringIO()
    with redirect_stdout(out), suppress(SystemExit):
        main(arguments)
    return out.getvalue().rstrip("\n")


def prose(text: str) -> str:
    """A help text as Markdown: click's mark for kept lines matters only for columns, which become a block."""
    parts = [part.strip("\b\n") for part in cleandoc(text.replace("\f", "")).split("\n\n")]
    return "\n\n".join(f"```text\n{part}\n```" if "   " in part else escaped(part) for part in parts if part)


def escaped(text: str) -> str:
    """A text in which nothing is markup but what stands in backticks."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if i % 2 else re.sub(r"([*_<|\\])", r"\\\1", part) for i, part in enumerate(parts))
