// What all pages share: numbers in words, charts in SVG that keep their text's size, and the trade-off chart.
const pending = []; // promises of what is still drawn
const NB = "\u00a0", MINUTE = 60, HOUR = 3600, DAY = 86400;

// The two largest units, cut, without a zero unit, as in base/words.py; with no-break spaces.
function duration(seconds) {
  const s = Math.floor(Math.abs(seconds) + 1e-6);
  const [d, h, min] = [Math.floor(s / DAY), Math.floor(s / HOUR) % 24, Math.floor(s / MINUTE) % 60];
  const units = [[d, "d"], [h, "h"], [min, "min"], [s % MINUTE, "s"]];
  const largest = units.findIndex(([count]) => count);
  if (largest < 0) return `0${NB}s`;
  const said = units.slice(largest, largest + 2).filter(([count]) => count);
  const words = said.map(([count, unit]) => `${count.toLocaleString("en")}${NB}${unit}`);
  return (seconds < 0 ? "−" : "") + words.join(NB);
}

// Whole from 10, else one decimal, or two if that were 0, as words.slowdown.
function slowdown(value) {
  const size = Math.abs(value) * (1 + 1e-12);
  if (size < 0.005) return "0";
  return (value < 0 ? "−" : "") + decimals(size, size >= 9.95 ? 0 : size >= 0.05 ? 1 : 2);
}

function decimals(value, digits) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// SVG

function element(name, attributes = {}, ...inner) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...inner);
  return made;
}

const text = (x, y, words, attributes = {}) => element("text", { x, y, ...attributes }, words);
const line = (x1, y1, x2, y2, attributes) => element("line", { x1, y1, x2, y2, ...attributes });

const pen = document.createElement("canvas").getContext("2d");

function widthOf(words, strong = false) {
  pen.font = `${strong ? "650 " : ""}13px ${getComputedStyle(document.documentElement).getPropertyValue("--font")}`;
  return pen.measureText(words).width;
}

// The words, or their beginning with an ellipsis, in at most this width.
function fitted(words, most, strong = false) {
  if (widthOf(words, strong) <= most) return words;
  let length = words.length;
  while (length > 1 && widthOf(`${words.slice(0, length)}…`, strong) > most) length--;
  return `${words.slice(0, length).trimEnd()}…`;
}

// A chart is drawn at the width of its place; again if that changes, and for paper.
const PAPER = 688; // pixels between the margins of an A4 page
const charts = new Set();
let printing = false;

function chart(place, draw) {
  const one = {
    place,
    width: 0,
    redraw() {
      const width = printing ? PAPER : Math.floor(place.clientWidth);
      if (!width) return;
      one.width = width;
      place.replaceChildren(draw(width));
    },
  };
  charts.add(one);
  one.redraw();
  new ResizeObserver(() => {
    if (!printing && Math.abs(place.clientWidth - one.width) > 1) one.redraw();
  }).observe(place);
  return one;
}

// On paper the folds are open.
const folded = new Set();
for (const [event, on] of [["beforeprint", true], ["afterprint", false]])
  addEventListener(event, () => {
    printing = on;
    if (on) for (const fold of document.querySelectorAll("details:not([open])")) folded.add(fold);
    for (const fold of folded) fold.open = on;
    if (!on) folded.clear();
    for (const one of charts) one.redraw();
  });

function picture(width, height, label) {
  return element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

// Scales

function linear(low, high, from, to) {
  return (value) => from + (high > low ? (value - low) / (high - low) : 0.5) * (to - from);
}

function logarithmic(low, high, from, to) {
  const scale = linear(Math.log(low), Math.log(high), from, to);
  return (value) => scale(Math.log(Math.max(value, low)));
}

// Round numbers between two numbers, about `most`, with their words; + 0 turns -0 into 0.
function roundTicks(low, high, most) {
  const rough = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((k) => k * power >= rough * (1 - 1e-9)) * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9) + 0; k * step <= high * (1 + 1e-9); k++)
    ticks.push([k * step, decimals(k * step, digits)]);
  return ticks;
}

// Amounts at the left of a chart, and lines at them.
function amountAxis(svg, y, ticks, left, right) {
  for (const [value, said] of ticks) {
    svg.append(line(left, y(value), right, y(value), { class: "grid" }));
    svg.append(text(left - 6, y(value) + 4, said.replaceAll(" ", NB), { "text-anchor": "end", class: "soft" }));
  }
}

// Waits at whole units: first those that stay if space is short.
const WAITS = [
  [1, "≤ 1 s", 1], [10, "10 s"], [MINUTE, "1 min", 1], [10 * MINUTE, "10 min"], [HOUR, "1 h", 1], [3 * HOUR, "3 h"],
  [12 * HOUR, "12 h"], [DAY, "1 d", 1], [3 * DAY, "3 d"], [10 * DAY, "10 d", 1], [30 * DAY, "1 month"],
  [91 * DAY, "3 months", 1], [365 * DAY, "1 year"], [1096 * DAY, "3 years", 1],
];

// Those of WAITS in a range; if it is narrow, round multiples of the largest unit that has several.
const MULTIPLES = [1, 2, 5, 10, 15, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000];
function waitTicks(low, high) {
  const found = WAITS.filter(([value]) => value >= low && value <= high);
  for (const unit of found.length < 2 ? [DAY, HOUR, MINUTE, 1] : []) {
    const step = unit * MULTIPLES.find((k) => (high - low) / (k * unit) <= 9), values = [];
    for (let at = step * Math.ceil(low / step); at <= high; at += step) values.push([at, duration(at), 1]);
    if (values.length > 1) return values;
  }
  return found;
}

// An axis of waits below a plot: the ticks that have space, and their lines. The first second stands for no wait.
function waitAxis(svg, x, { low, high, left, right, top, bottom, label }) {
  let ticks = waitTicks(low, high);
  const half = ([, words]) => widthOf(words) / 2 + 6;
  const place = (tick) => Math.min(Math.max(x(tick[0]), half(tick) - 6), right - half(tick) + 6);
  const tight = () => ticks.some((tick, k) => k && place(tick) - place(ticks[k - 1]) < half(tick) + half(ticks[k - 1]));
  if (tight() && ticks.some(([, , main]) => main)) ticks = ticks.filter(([, , main]) => main);
  while (tight()) ticks = ticks.filter((_, k) => k % 2 === 0);
  for (const [value, words] of ticks) {
    const at = place([value, words]);
    svg.append(line(x(value), top, x(value), bottom, { class: "grid" }));
    svg.append(text(at, bottom + 17, words.replace(" ", NB), { "text-anchor": "middle", class: "soft" }));
  }
  svg.append(text(right, bottom + 36, `${label} →`, { "text-anchor": "end", class: "soft" }));
}

// Marks: the shape says the role without its colour.
function mark(kind, x, y, r, fill) {
  const look = { fill, stroke: "var(--ground)", "stroke-width": 1.5 };
  if (kind === "square") return element("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r, ...look });
  if (kind === "flag")
    return element("path", { d: `M${x} ${y - 1.25 * r}L${x + 1.2 * r} ${y + r}L${x - 1.2 * r} ${y + r}Z`, ...look });
  const dot = element("circle", { cx: x, cy: y, r, ...look });
  if (kind !== "ring") return dot;
  const ring = element("circle", { cx: x, cy: y, r: r + 4, fill: "none", stroke: fill, "stroke-width": 2 });
  return element("g", {}, ring, dot);
}

// Names at points, none over another or over a mark: beside the point where that is free, most important first; the
// others nearby with leaders. Returns the points whose names found no place.
//   points: {x, y, r, name, suffix, ink, strong, rank}; r is the mark's radius, the suffix follows a name even if that
//     is cut short
//   area: {left, top, right, bottom} that names stay in
//   lines: boxes [x1, y1, x2, y2] that names should avoid
const NAME = 16; // pixels: the height of a name
const MOST_LEADERS = 9; // more would be hard to follow
const meet = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];

function placeNames(svg, points, area, lines = []) {
  const inside = ([x1, y1, x2, y2]) => x1 >= area.left && x2 <= area.right && y1 >= area.top && y2 <= area.bottom;
  const taken = points.map(({ x, y, r }) => [x - r - 2, y - r - 2, x + r + 2, y + r + 2]);
  const most = Math.min(260, (area.right - area.left) * 0.45);
  for (const point of points) {
    point.words = fitted(point.name, most, point.strong) + (point.suffix ?? "");
    point.wide = widthOf(point.words, point.strong) + 2;
  }
  const write = (point, box, toLeft) => {
    taken.push(box);
    svg.append(text(toLeft ? box[2] : box[0], box[3] - 4, point.words, {
      "text-anchor": toLeft ? "end" : "start", class: point.strong ? "halo strong" : "halo", style: `fill:${point.ink}`,
    }));
  };
  const beside = (point, toLeft, dy) => {
    const x = toLeft ? point.x - point.r - 5 - point.wide : point.x + point.r + 5;
    return [x, point.y + dy - NAME / 2, x + point.wide, point.y + dy + NAME / 2];
  };
  const left = new Set(points);
  for (const point of [...points].sort((a, b) => b.rank - a.rank || a.y - b.y)) {
    let best;
    for (const toLeft of [false, true])
      for (const dy of [0, -5, 5, -10, 10]) {
        const box = beside(point, toLeft, dy);
        if (!inside(box) || taken.some((other) => meet(box, other))) continue;
        const crowded = [...left].filter((other) => other !== point && meet(box, beside(other, false, 0))).length;
        const inked = [box[0], box[1] + 2, box[2], box[3] - 1]; // from ascenders to descenders
        const crossed = lines.filter((other) => meet(inked, other)).length;
        const cost = Math.abs(dy) * 0.3 + (toLeft ? 3 : 0) + 4 * crowded + 5 * crossed;
        if (!best || cost < best.cost) best = { cost, box, toLeft };
      }
    if (!best) continue;
    write(point, best.box, best.toLeft);
    left.delete(point);
  }
  const unnamed = [], leaders = [];
  for (const point of [...left].sort((a, b) => b.rank - a.rank)) {
    const found = leaders.length < MOST_LEADERS && freePlace(point, area, taken, lines, points, leaders);
    if (!found) { unnamed.push(point); continue; }
    svg.append(line(point.x, point.y, ...found.leader[1], { stroke: "var(--mark)" }));
    write(point, found.box, found.toLeft);
    leaders.push(found.leader);
  }
  return unnamed;
}

// Whether the line from one point to a place touches the mark of another.
function crosses(point, [toX, toY], other) {
  const [dx, dy] = [toX - point.x, toY - point.y], length = Math.hypot(dx, dy), from = point.r / length;
  const nearest = ((other.x - point.x) * dx + (other.y - point.y) * dy) / length ** 2;
  const at = Math.min(Math.max(nearest, from), 1);
  return Math.hypot(point.x + at * dx - other.x, point.y + at * dy - other.y) < other.r;
}

// Whether a leader passes through a box.
function passes([point, [toX, toY]], [x1, y1, x2, y2]) {
  const within = (x, y) => x > x1 && x < x2 && y > y1 && y < y2;
  return [...Array(41).keys()].some((k) => within(point.x + (k / 40) * (toX - point.x), point.y + (k / 40) * (toY - point.y)));
}

// Whether two leaders cross.
function crossing([a, [toX, toY]], [b, [otherX, otherY]]) {
  const side = (p, q, r) => (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x);
  const to = { x: toX, y: toY }, other = { x: otherX, y: otherY };
  return side(a, to, b) * side(a, to, other) < 0 && side(b, other, a) * side(b, other, to) < 0;
}

// The cheapest place for a name at the right or left of its point, so that its leader crosses no mark and no other
// leader, and the name none of them; undefined if none is free.
function freePlace(point, area, taken, lines, marks, leaders) {
  let best;
  for (let x = area.left; x + point.wide <= area.right; x += 8)
    for (let y = area.top + NAME / 2; y <= area.bottom - NAME / 2; y += 4) {
      const box = [x, y - NAME / 2, x + point.wide, y + NAME / 2], toLeft = box[2] < point.x - point.r;
      if (!toLeft && x < point.x + point.r + 10) continue;
      const leader = [point, [toLeft ? box[2] + 3 : x - 3, y]], count = (boxes, meets) => boxes.filter(meets).length;
      if (taken.some((other) => meet(box, other))) continue;
      let cost = Math.hypot(leader[1][0] - point.x, y - point.y) * 0.1 + 5 * count(lines, (other) => meet(box, other));
      if (best && cost >= best.cost) continue;
      if (leaders.some((other) => passes(other, box) || crossing(other, leader))) continue;
      if (marks.some((other) => other !== point && crosses(point, leader[1], other))) continue;
      cost += 60 * count(taken, (other) => passes(leader, other));
      if (!best || cost < best.cost) best = { cost, box, toLeft, leader };
    }
  return best;
}

// Slowdown over the longest wait, logarithmic. Returns the chart; `set` changes settings and draws again.
//   points: {name, slowdown, longest}, the longest wait in seconds
//   settings: reference and chosen (indices, or undefined); limit (seconds: beyond it is shaded, and marks are flags);
//     flagged (seconds: the flags begin there instead); limitName (in words, and shortName on phones); line (whether the limit has a line); front (whether what none
//     beats is joined); strong (further indices with bold names); label (a sentence); height, and paper, that in print; pick (called with the
//     index of a clicked mark)
function tradeoff(place, points, settings) {
  const drawn = chart(place, (width) => drawTradeoff(width, points, settings, place));
  return { ...drawn, set(changed) { Object.assign(settings, changed); drawn.redraw(); } };
}

function drawTradeoff(width, points, settings, place) {
  const small = width < 560, { reference, chosen, limit = Infinity, strong = [] } = settings;
  const height = printing ? settings.paper ?? 340 : settings.height ?? (small ? 400 : 420);
  const values = points.map((point) => point.slowdown), spread = Math.max(...values) - Math.min(...values) || 1;
  const floor = Math.max(Math.min(...values) - 0.12 * spread, 0), ceiling = Math.max(...values) + 0.08 * spread;
  const ticks = roundTicks(floor, ceiling, 6);
  const left = Math.max(small ? 38 : 48, ...ticks.map(([, words]) => Math.ceil(widthOf(words)) + 10));
  const area = { left, right: width - (small ? 10 : 16), top: 24, bottom: height - 44 };
  const longest = points.map((point) => Math.max(point.longest, 1)), high = 1.3 * Math.max(...longest);
  const share = (small ? 24 : 96) / (area.right - area.left); // where names fit left of the first point
  const low = Math.max(Math.min(...longest) * (Math.min(...longest) / high) ** (share / (1 - share)) / 1.05, 0.5);
  const x = logarithmic(low, high, area.left, area.right), y = linear(floor, ceiling, area.bottom, area.top);
  const svg = picture(width, height, settings.label);

  const edge = Math.max(x(limit), area.left), axis = "slowdown";
  if (limit > 0 && limit < high) {
    const { right, top, bottom } = area, words = small ? settings.shortName : settings.limitName;
    svg.append(element("rect", { x: edge, y: top, width: right - edge, height: bottom - top, fill: "var(--wash)" }));
    if (settings.line) svg.append(line(edge, top, edge, bottom, { stroke: "var(--pays)", "stroke-width": 2 }));
    const begin = Math.max(edge, widthOf(axis) + 12), ends = small || begin + widthOf(words) > right;
    const at = ends ? right : begin;
    svg.append(text(at, top - 8, words, { style: "fill:var(--pays)", "text-anchor": ends ? "end" : "start" }));
  }
  amountAxis(svg, y, ticks, area.left, area.right);
  svg.append(text(0, area.top - 8, axis, { class: "soft" }));
  waitAxis(svg, x, { ...area, low, high, label: "longest wait" });

  const front = settings.front ? frontOf(points) : [];
  const lines = drawFront(svg, front, x, y);
  if (settings.line && limit < high) lines.push([edge - 1, area.top, edge + 1, area.bottom]);
  const marks = points.map((point, k) => {
    const beyond = point.longest > (settings.flagged ?? limit), bold = k === reference || k === chosen || strong.includes(k);
    const kind = k === reference ? "square" : k === chosen ? "ring" : beyond ? "flag" : "dot";
    const role = { square: "var(--reference)", ring: "var(--advised)", flag: "var(--pays)", dot: "var(--mark)" }[kind];
    const r = bold ? 6 : 5;
    return {
      k, kind, role, radius: r, r: kind === "ring" ? r + 4 : r + 1, x: x(longest[k]), y: y(point.slowdown),
      name: point.name, suffix: k === reference ? ` (${settings.referenceName ?? "reference"})` : "",
      ink: kind === "dot" || kind === "square" ? "var(--text)" : role, strong: bold,
      rank: bold ? 9 : front.includes(point) ? 5 : beyond ? 1 : 2,
    };
  });
  const unnamed = placeNames(svg, together(marks), { ...area, left: area.left + 2 }, lines);
  for (const one of [...marks].sort((a, b) => a.rank - b.rank)) {
    const shape = mark(one.kind, one.x, one.y, one.radius, one.role), point = points[one.k];
    const figures = `slowdown ${slowdown(point.slowdown)}, longest wait ${duration(point.longest)}`;
    shape.append(element("title", {}, `${point.name}: ${figures}`));
    if (settings.pick) {
      shape.classList.add("pick");
      shape.addEventListener("click", () => settings.pick(one.k));
    }
    svg.append(shape);
  }
  place.dataset.unnamed = unnamed.length;
  return svg;
}

// The marks that need a name: one that lies on a more important one is named, or counted, there.
function together(marks) {
  const named = [];
  for (const one of [...marks].sort((a, b) => b.rank - a.rank)) {
    const below = named.find((other) => Math.hypot(other.x - one.x, other.y - one.y) < 4);
    if (below) below.on.push(one.name);
    else named.push({ ...one, on: [] });
  }
  for (const { on, ...one } of named.splice(0)) {
    const others = on.length > 1 ? `, ${on.length} more` : on.map((name) => `, ${fitted(name, 120)}`).join("");
    named.push({ ...one, suffix: one.suffix + others });
  }
  return named;
}

// The points that no other beats, shortest longest wait first.
function frontOf(points) {
  let least = Infinity;
  return [...points].sort((a, b) => a.longest - b.longest || a.slowdown - b.slowdown)
    .filter((point) => point.slowdown < least && ((least = point.slowdown), true));
}

// The steps that join these points; returns the boxes of their lines.
function drawFront(svg, points, x, y) {
  const front = points.map((point) => [x(Math.max(point.longest, 1)), y(point.slowdown)]);
  const path = front.map(([px, py], k) => (k ? `H${px}V${py}` : `M${px} ${py}`)).join("");
  const look = { class: "line", stroke: "var(--mark)", "stroke-width": 1.5, "stroke-dasharray": "5 4" };
  svg.append(element("path", { d: path, ...look }));
  return front.slice(1).flatMap(([px, py], k) => [
    [front[k][0], front[k][1] - 1, px, front[k][1] + 1],
    [px - 1, front[k][1], px + 1, py],
  ]);
}

// A table that is wider than its place scrolls there, and only then is a stop of the tab key.
function scrollers() {
  const headings = [...document.querySelectorAll("h2, h3, summary")], named = new Map();
  for (const place of document.querySelectorAll(".scroll")) {
    const scrolls = place.scrollWidth > place.clientWidth + 1;
    const above = headings.findLast((heading) => heading.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING);
    const name = place.querySelector("caption")?.textContent ?? place.getAttribute("data-name") ?? above?.textContent ?? "Table";
    const times = (named.get(name) ?? 0) + 1; // several parts may have a table of this name
    named.set(name, times);
    const given = scrolls ? { tabindex: 0, role: "region", "aria-label": times > 1 ? `${name}, ${times}` : name } : {};
    for (const key of ["tabindex", "role", "aria-label"])
      if (key in given) place.setAttribute(key, given[key]);
      else place.removeAttribute(key);
  }
}

// What a cell is sorted by: a duration in seconds, a date, a number, or its words.
const UNITS = { d: DAY, h: HOUR, min: MINUTE, s: 1 };
function sortKey(cell) {
  const words = cell.innerText.replaceAll(NB, " ").replaceAll("−", "-").replace(/^[▲+\s]+/, "").trim();
  const times = [...(/^-?(?:[\d,.]+ (?:d|h|min|s)\b ?)+/.exec(words)?.[0] ?? "").matchAll(/([\d,.]+) (d|h|min|s)/g)];
  if (times.length) return times.reduce((sum, [, count, unit]) => sum + Number(count.replaceAll(",", "")) * UNITS[unit], 0) * (words[0] === "-" ? -1 : 1);
  const day = /^day ([\d,]+) (\d+):(\d+)/.exec(words);
  if (day) return day[1].replaceAll(",", "") * DAY + day[2] * HOUR + day[3] * MINUTE;
  if (/^\d+ [A-Z][a-z]{2} \d{4}/.test(words)) return Date.parse(`${words} UTC`);
  const figure = /^-?[\d,]+(\.\d+)?(?=$|[\s%])/.exec(words);
  return figure ? Number(figure[0].replaceAll(",", "")) : words;
}

// A click on a heading sorts the rows by its column, another click turns them round; what is no figure comes last.
function sortable(table) {
  for (const head of table.tHead?.rows[0].cells ?? []) {
    if (head.querySelector(".sr") || !head.textContent.trim()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.ariaSort === "ascending" ? -1 : 1, [body] = table.tBodies;
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const keyed = [...body.rows].map((row) => [row.cells[head.cellIndex] ? sortKey(row.cells[head.cellIndex]) : "", row]);
      const order = ([a], [b]) => (typeof a === typeof b ? sign * (typeof a === "number" ? a - b : a.localeCompare(b)) : typeof a === "number" ? -1 : 1);
      body.append(...keyed.sort(order).map(([, row]) => row));
    });
  }
}
for (const table of document.querySelectorAll(".scroll > table:not(.bars, .jobs-table)"))
  if (!table.closest(".heat")) sortable(table);
addEventListener("resize", scrollers);
addEventListener("load", scrollers);
