// The comparison of several runs: its charts, and what depends on the reference that the reader chooses.
const DASHES = ["7 4", "2 3", "9 3 2 3", "14 4"];

class Comparison {
  constructor(place) {
    this.place = place;
    Object.assign(this, JSON.parse(place.querySelector("script[type='application/json']").textContent));
    this.select = place.querySelector("select.against");
    this.chips = [...place.querySelectorAll(".chips input")];
    this.reference = Number(this.select.value);
    const plot = place.querySelector(".tradeoff");
    const space = innerHeight - plot.getBoundingClientRect().top - scrollY - 48;
    const height = plot.clientWidth < 560 ? undefined : Math.max(320, Math.min(460, space));
    this.tradeoff = tradeoff(plot, this.rows, { front: true, height, ...this.settings() });
    const tail = place.querySelector(".tail");
    this.tail = tail ? chart(tail, (width) => drawTail(this, width, tail.dataset.label)) : { redraw() {} }; // without waits there is none
    const queues = place.querySelector(".queues");
    this.queues = queues ? chart(queues, (width) => drawQueues(this, width)) : { redraw() {} };
    this.select.addEventListener("change", () => this.refer(Number(this.select.value)));
    for (const chip of this.chips)
      chip.addEventListener("change", () => { for (const one of [this.tail, this.queues]) one.redraw(); });
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
    const { answer, tail, pairs, cells, chosen, kills, losers } = this.against;
    const put = (selector, html) => {
      const found = this.place.querySelector(selector);
      if (found && found.innerHTML !== html) found.innerHTML = html;
    };
    put(".answer", answer);
    put(".kills", kills);
    put(".losers", losers);
    put(".tail-words", tail);
    for (const name of this.place.querySelectorAll(".base")) name.textContent = this.rows[reference].name;
    const ends = pairs.flatMap((pair) => (pair ?? [])).filter((end) => end !== null);
    const scale = linear(Math.min(0, ...ends), Math.max(0, ...ends), 6, 134);
    for (const row of this.place.querySelectorAll("[data-k]")) {
      const k = Number(row.dataset.k), [, , longest, , difference, drawn, verdict] = row.cells;
      row.className = k === reference ? "reference" : k === chosen ? "chosen" : "";
      [longest, difference, verdict].forEach((cell, i) => { cell.innerHTML = cells[k][i]; });
      drawn.className = "drawn";
      drawn.replaceChildren(...(pairs[k] ? [interval(pairs[k], cells[k][2], scale)] : []));
    }
    this.tradeoff.set(this.settings());
    this.tail.redraw();
    this.queues.redraw();
    const unnamed = Number(this.place.querySelector(".tradeoff").dataset.unnamed);
    this.place.querySelector(".unnamed").textContent = unnamed
      ? ` ${unnamed} ${unnamed === 1 ? "point has" : "points have"} no space for a name; the table has them all.` : "";
  }
}

// A difference and its interval beside 0; the words are in the cell before.
function interval([value, low, high], verdict, x) {
  const svg = element("svg", { width: 140, height: 36, viewBox: "0 0 140 36", "aria-hidden": "true" });
  const ink = { better: "var(--advised)", worse: "var(--pays)" }[verdict] ?? "var(--mark)";
  svg.append(line(x(0), 0, x(0), 36, { stroke: "var(--soft)" }));
  if (low !== null && high !== null) svg.append(line(x(low), 18, x(high), 18, { stroke: ink, "stroke-width": 2 }));
  svg.append(mark(verdict === "worse" ? "flag" : "dot", x(value), 18, 4, ink));
  return svg;
}

// The share of items with a wait longer than a duration: the chosen ones with their names, the others grey.
const SHARES = [
  [1, "all"], [0.5, "1 in 2"], [0.1, "1 in 10"], [0.01, "1 in 100"], [1e-3, "1 in 1,000"], [1e-4, "1 in 10,000"],
  [1e-5, "1 in 100,000"], [1e-6, "1 in a million"],
];

// The runs that are chosen, and how the curve of each run looks.
function looks({ rows, reference, against, chips }) {
  const on = chips.filter((chip) => chip.checked).map((chip) => Number(chip.value)), limit = 2 * rows[reference].longest;
  const look = (k) => {
    if (!on.includes(k)) return { stroke: "var(--mark)", opacity: 0.45 };
    const role = k === reference ? "reference" : k === against.chosen ? "advised" : rows[k].longest > limit ? "pays" : "mark";
    const dashes = k === reference ? undefined : DASHES[on.indexOf(k) % DASHES.length];
    return { stroke: `var(--${role})`, "stroke-width": 2.25, "stroke-dasharray": dashes };
  };
  return { on, look };
}

function drawTail(comparison, width, label) {
  const { rows, grid, items, reference } = comparison, { on, look } = looks(comparison);
  const small = width < 560, height = small ? 330 : 400;
  const low = grid[0], high = Math.max(grid.at(-1), ...rows.map((row) => row.longest));
  const least = 0.7 / items, most = Math.max(2, ...rows.map((row) => row.tail[0])) / items;
  const shares = SHARES.filter(([share]) => share <= most && share >= least && (share !== 0.5 || items <= 30));
  const left = Math.max(0, ...shares.map(([, words]) => Math.ceil(widthOf(words)))) + 14;
  const area = { left, right: width - 14, top: 10, bottom: height - 44 };
  const x = logarithmic(low, high, area.left, area.right), y = logarithmic(least, most, area.bottom, area.top);
  const named = on.map((k) => rows[k].name).join(", ");
  const said = `Share with ${label} a duration, for ${named}. Each curve ends at the longest wait; the table has them.`;
  const svg = picture(width, height, said);
  amountAxis(svg, y, shares, area.left, area.right);
  waitAxis(svg, x, { ...area, low, high, label });
  const curve = ({ tail, longest }, how) => {
    const points = grid.map((wait, k) => [wait, tail[k]]).filter(([, count]) => count);
    if (longest >= low) points.push([longest, 1]);
    const d = points.map(([wait, count]) => `${x(wait).toFixed(1)} ${y(count / items).toFixed(1)}`).join("L");
    svg.append(element("path", { d: d && `M${d}`, class: "line", ...how }));
  };
  for (const [k, row] of rows.entries()) if (!on.includes(k)) curve(row, look(k));
  const ends = on.map((k) => {
    const { name, longest } = rows[k], { stroke } = look(k);
    curve(rows[k], look(k));
    return {
      x: x(longest), y: y(1 / items), r: 4, rank: k === reference ? 9 : 5, strong: true, role: stroke, name,
      ink: stroke === "var(--mark)" ? "var(--text)" : stroke, suffix: small ? "" : `: ${duration(longest)}`,
    };
  });
  placeNames(svg, ends, { ...area, left: area.left + 2 });
  for (const end of ends) svg.append(mark("dot", end.x, end.y, 4, end.role));
  return svg;
}

// The queues of the chosen runs over time, one below the other on the same axes.
function drawQueues(comparison, width) {
  const { rows, over: { begin, step, queues, clock } } = comparison, { on, look } = looks(comparison);
  const [left, right, end] = [width < 560 ? 44 : 52, width - 14, begin + step * queues[0].length];
  const most = Math.max(1, ...queues.flat()), x = linear(begin, end, left, right);
  const panels = on.map((k) => ({
    name: rows[k].name, note: `at most ${number(Math.max(...queues[k]), 0)}`, tall: 64, high: most, ticks: wholeTicks(most),
    draw: (svg, _, y) => bars(svg, queues[k], x, y, { begin, step }, { fill: look(k).stroke }),
  }));
  const said = panels.map(({ name, note }) => `${name} ${note}`).join(", ");
  const svg = picture(width, panels.length * (64 + GAP) + 40, `Jobs waiting over time: ${said}.`);
  stack(svg, panels, x, { clock: new Clock(clock), begin, end, left, right, width, top: 0 });
  return svg;
}

for (const place of document.querySelectorAll("section.comparison")) new Comparison(place);
