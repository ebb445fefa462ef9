"""Run a notebook's cells without Jupyter: `python tests/notebook.py FILE.ipynb` stores what they print in the file."""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]


def read(path: Path) -> list[dict[str, Any]]:
    """The cells; each cell's text is cell["source"], a list of lines."""
    cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return cells


def printed(cells: list[dict[str, Any]], folder: Path) -> list[str]:
    """What each cell of code prints, in a folder, one after the other with the same names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    texts = []
    with chdir(folder):
        for number, cell in enumerate(cell for cell in cells if cell["cell_type"] == "code"):
            out = io.StringIO()
            body = ast.parse("".join(cell["source"])).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            with redirect_stdout(out):
                exec(compile(ast.Module(body, []), f"<cell {number}>", "exec"), names)
                if last is not None:
                    value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
                    if value is not None:
                        print(repr(value))
            texts.append(out.getvalue())
    return texts


def shown(cell: dict[str, Any]) -> str:
    """The text that is stored as a cell's output."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def folder_like(path: Path, top: Path) -> Path:
    """A folder below `top`, which is empty, from which the sample is where it is from the notebook."""
    folder = top / path.resolve().parent.relative_to(ROOT)
    folder.mkdir(parents=True)
    (top / "workloads").symlink_to((ROOT / "workloads").resolve(strict=True))
    return folder


def store(path: Path) -> None:
    """Run the notebook, and write it with what its cells print."""
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with TemporaryDirectory() as top:
        texts = printed(notebook["cells"], folder_like(path, Path(top)))
    for count, (cell, text) in enumerate(zip(code, texts, strict=True), start=1):
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell.update(execution_count=count, outputs=[stream] if text else [])
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    store(Path(sys.argv[1]))
