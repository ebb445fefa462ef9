// Headings of tables sort their rows: by numbers and durations downwards, by words upwards, and again the other way.
{
  const UNITS = { d: DAY, h: HOUR, min: MINUTE, s: 1 };

  // A cell's first words as a number if they begin with one, else as text; nothing for an empty cell.
  function valueOf(cell) {
    const words = (cell.querySelector("button") ?? cell).firstChild?.textContent.trim() ?? "";
    const parts = [...words.matchAll(/([\d,.]+)\s(d|h|min|s)(?!\w)/g)];
    const [first] = words.match(/^[+−]?[\d,.]+/) ?? [""], sign = first.startsWith("−") ? -1 : 1;
    const number = parts.length ? parts.reduce((sum, [, count, unit]) => sum + count.replaceAll(",", "") * UNITS[unit], 0)
      : parseFloat(first.replace(/[+−,]/g, ""));
    return words === "" ? undefined : first ? sign * number : words;
  }

  function sort(head, column) {
    const down = head.ariaSort ? head.ariaSort === "ascending" : undefined, body = head.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
    const words = rows.some(([value]) => typeof value === "string"), order = (down ?? !words) ? -1 : 1;
    rows.sort(([a], [b]) => a === undefined || b === undefined ? (a === undefined) - (b === undefined)
      : order * (words ? `${a}`.localeCompare(`${b}`, "en", { numeric: true }) : a - b));
    body.append(...rows.map(([, row]) => row));
    for (const other of head.parentElement.cells) other.ariaSort = null;
    head.ariaSort = order < 0 ? "descending" : "ascending";
  }

  for (const head of document.querySelectorAll(".scroll thead th")) {
    const column = head.cellIndex, button = document.createElement("button");
    if (!head.textContent || head.closest("table").tBodies[0].rows.length < 2) continue;
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head, column));
    head.append(button);
  }
}
