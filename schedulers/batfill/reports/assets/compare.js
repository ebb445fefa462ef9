// The comparison of several runs: its charts, and what depends on the reference that the reader chooses.
const DASHES = ["7 4", "2 3", "9 3 2 3", "14 4"];

class Comparison {
  constructor(place) {
    this.place = place;
    Object.assign(this, JSON.parse(place.querySelector("script[type='application/json']").textContent));
    this.select = place.querySelector("select.against");
    this.chips = [...place.querySelectorAll(".chips input")];
    this.reference = Number(this.select.value);
    const chart = place.querySelector(".tradeoff");
    const space = innerHeight - chart.getBoundingClientRect().top - scrollY - 48;
    const height = chart.clientWidth < 560 ? undefined : Math.max(320, Math.min(460, space));
    this.tradeoff = tradeoff(chart, this.rows, { front: true, height, ...this.settings() });
    const tail = place.querySelector(".tail");
    this.tail = tail ? tailChart(this, tail) : { redraw() {} }; // without waits there is none
    this.select.addEventListener("change", () => this.refer(Number(this.select.value)));
    for (const chip of this.chips) chip.addEventListener("change", () => this.tail.redraw());
    this.refer(this.reference);
  }

  get against() { return this.references[this.reference]; }

  // The settings of the trade-off chart.
  settings() {
    const { name, longest } = this.rows[this.reference], { chosen, label, decided } = this.against;
    return {
      strong: decided ? [this.lowest] : [],
      reference: this.reference, chosen: chosen ?? undefined, limit: 2 * longest, label,
      limitName: `▲ longest wait more than twice that of ${fitted(name, 200)}`,
      shortName: `▲ over twice ${fitted(name, 90)}’s wait`,
    };
  }

  // Everything that follows the reference.
  refer(reference) {
    this.reference = reference;
    const { answer, tail, pairs, chosen } = this.against, base = this.rows[reference];
    const put = (selector, html) => {
      const found = this.place.querySelector(selector);
      if (found && found.innerHTML !== html) found.innerHTML = html;
    };
    put(".answer", answer);
    put(".tail-words", tail);
    this.place.querySelector(".base").textContent = base.name;
    const ends = pairs.flatMap((pair) => (pair ? pair.slice(0, 3) : [])).filter((end) => end !== null);
    const scale = linear(Math.min(0, ...ends), Math.max(0, ...ends), 6, 134);
    for (const row of this.place.querySelectorAll("tbody tr")) {
      const k = Number(row.dataset.k), [, , longest, , difference, drawn, verdict] = row.cells;
      row.className = k === reference ? "reference" : k === chosen ? "chosen" : "";
      longest.querySelector(".times").replaceChildren(...this.times(k, base));
      difference.replaceChildren(...this.difference(pairs[k]));
      drawn.className = "drawn";
      drawn.replaceChildren(...(pairs[k] ? [interval(pairs[k], scale)] : []));
      verdict.textContent = pairs[k] ? pairs[k][3] : "";
    }
    this.tradeoff.set(this.settings());
    this.tail.redraw();
    const unnamed = Number(this.place.querySelector(".tradeoff").dataset.unnamed);
    this.place.querySelector(".unnamed").textContent = unnamed
      ? ` ${unnamed} ${unnamed === 1 ? "point has" : "points have"} no space for a name; the table has them all.` : "";
  }

  times(k, base) {
    const ratio = this.rows[k].longest / base.longest;
    if (k === this.reference || !base.longest) return [];
    if (ratio > 2) return [sub(`▲ ${slowdown(ratio)} times`, "sub flag")];
    const percent = Math.round(100 * (ratio - 1));
    return [sub(percent ? `${signed(percent, String)}${NB}%` : "as long", "sub")];
  }

  difference(pair) {
    if (!pair) return ["reference"];
    const [value, low, high] = pair, bounded = low !== null && high !== null;
    const words = slowdown(value), shown = value < 0 || words === "0.0" ? words : `+${words}`;
    return [shown, sub(bounded ? `${slowdown(low)} to ${slowdown(high)}` : `too few ${this.blocks}`, "sub")];
  }
}

function sub(words, kind) {
  const made = document.createElement("span");
  made.className = kind;
  made.textContent = words;
  return made;
}

// A difference and its interval beside 0; the words are in the cell before.
function interval([value, low, high, verdict], x) {
  const svg = element("svg", { width: 140, height: 36, viewBox: "0 0 140 36", "aria-hidden": "true" });
  const ink = { better: "var(--advised)", worse: "var(--pays)" }[verdict] ?? "var(--mark)";
  svg.append(line(x(0), 0, x(0), 36, { stroke: "var(--soft)" }));
  if (low !== null && high !== null) svg.append(line(x(low), 18, x(high), 18, { stroke: ink, "stroke-width": 2 }));
  svg.append(mark(verdict === "worse" ? "flag" : "dot", x(value), 18, 4, ink));
  return svg;
}

// The share of items with a wait longer than a duration: the chosen ones with their names, the others grey.
function tailChart(comparison, place) {
  return chart(place, (width) => drawTail(comparison, width, place.dataset.label));
}

const SHARES = [
  [1, "all"], [0.5, "1 in 2"], [0.1, "1 in 10"], [0.01, "1 in 100"], [1e-3, "1 in 1,000"], [1e-4, "1 in 10,000"],
  [1e-5, "1 in 100,000"], [1e-6, "1 in a million"],
];

function drawTail({ rows, grid, items, reference, against, chips }, width, label) {
  const small = width < 560, height = small ? 330 : 400;
  const area = { left: small ? 84 : 90, right: width - 14, top: 10, bottom: height - 44 };
  const low = grid[0], high = Math.max(grid.at(-1), ...rows.map((row) => row.longest));
  const least = 0.7 / items, most = Math.max(2, ...rows.map((row) => row.tail[0])) / items;
  const x = logarithmic(low, high, area.left, area.right), y = logarithmic(least, most, area.bottom, area.top);
  const on = chips.filter((chip) => chip.checked).map((chip) => Number(chip.value));
  const named = on.map((k) => rows[k].name).join(", ");
  const said = `Share with ${label} a duration, for ${named}. Each curve ends at the longest wait; the table has them.`;
  const svg = picture(width, height, said);
  for (const [share, words] of SHARES) {
    if (share > most || share < least || (share === 0.5 && items > 30)) continue;
    const look = { "text-anchor": "end", class: "soft" };
    svg.append(line(area.left, y(share), area.right, y(share), { class: "grid" }));
    svg.append(text(area.left - 8, y(share) + 4, words.replaceAll(" ", NB), look));
  }
  waitAxis(svg, x, { ...area, low, high, label });
  const curve = ({ tail, longest }, look) => {
    const points = grid.map((wait, k) => [wait, tail[k]]).filter(([, count]) => count);
    if (longest >= low) points.push([longest, 1]);
    const d = points.map(([wait, count]) => `${x(wait).toFixed(1)} ${y(count / items).toFixed(1)}`).join("L");
    svg.append(element("path", { d: d && `M${d}`, class: "line", ...look }));
  };
  for (const [k, row] of rows.entries()) if (!on.includes(k)) curve(row, { stroke: "var(--mark)", opacity: 0.45 });
  const ends = on.map((k, place) => {
    const { name, longest } = rows[k], limit = 2 * rows[reference].longest;
    const role = k === reference ? "reference" : k === against.chosen ? "advised" : longest > limit ? "pays" : "mark";
    const ink = `var(--${role})`, dashes = k === reference ? undefined : DASHES[place % DASHES.length];
    curve(rows[k], { stroke: ink, "stroke-width": 2.25, "stroke-dasharray": dashes });
    return {
      x: x(longest), y: y(1 / items), r: 4, rank: k === reference ? 9 : 5, strong: true, role: ink, name,
      ink: role === "mark" ? "var(--text)" : ink, suffix: small ? "" : `: ${duration(longest)}`,
    };
  });
  placeNames(svg, ends, { ...area, left: area.left + 2 });
  for (const end of ends) svg.append(mark("dot", end.x, end.y, 4, end.role));
  return svg;
}

for (const place of document.querySelectorAll("section.comparison")) new Comparison(place);
