"""What mkdocs cannot know: the commands' reference, the public names of Python, and notebooks; marks are left out."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout, suppress
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

import batfill
from batfill import PLACES
from batfill.cli import main
from batfill.cli.app import app

COMMANDS = "<!-- the commands -->"
NAMES = "<!-- the public names -->"
NOTEBOOK = re.compile(r"^<!-- the notebook (\S+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with the reference in the place kept for it, and without the comments above blocks."""
    if page.file.src_uri.startswith("results/"):
        page.meta["search"] = {"boost": 0.2}  # long pages of figures: guides and reference are found first
    markdown = re.sub(r"^<!-- (before|needs|not run): .*-->\n", "", markdown, flags=re.MULTILINE)
    for name, (module, its_name) in PLACES.items():
        heading = f"    options: {{heading: bf.{name}, toc_label: bf.{name}}}"
        place = re.escape(f"{module}.{its_name}")
        markdown = re.sub(rf"^::: {place}$", rf"\g<0>\n{heading}\n", markdown, flags=re.MULTILINE)
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, "\n".join(reference(app, "batfill")))
    if NAMES in markdown:
        markdown = markdown.replace(NAMES, public_names())
    if found := NOTEBOOK.search(markdown):
        markdown = markdown.replace(found[0], cells(Path(page.file.abs_src_path).with_name(found[1])))
    return markdown


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
