// Amounts over time in panels below each other, on one axis of dates.
const GAP = 28; // pixels above a panel, for its name

// Dates below a chart, or below `at`, and lines at them from `top` on.
function dateAxis(svg, x, { clock, begin, end, top, bottom, at = bottom, width }) {
  const free = [0, 0]; // where each line of words is still empty
  for (const [second, ...lines] of clock.ticks(begin, end, width < 560 ? 3 : 8)) {
    svg.append(line(x(second), top, x(second), bottom, { class: "grid" }));
    for (const [row, said] of lines.entries()) {
      const half = widthOf(said) / 2, middle = Math.min(Math.max(x(second), half), width - half);
      if (!said || middle - half < free[row]) continue;
      svg.append(text(middle, at + 16 * (row + 1), said, { class: "soft", "text-anchor": "middle" }));
      free[row] = middle + half + 6;
    }
  }
}

const wholeTicks = (most) => roundTicks(0, most, 4).filter(([value]) => value % 1 === 0);

// The line of values over equal times, from the bottom on.
function stepLine(values, x, y, { begin, step }) {
  const steps = Array.from(values, (value, i) => `V${y(value).toFixed(1)}H${x(begin + (i + 1) * step).toFixed(1)}`);
  return `M${x(begin).toFixed(1)} ${y(0)}${steps.join("")}`;
}

function bars(svg, values, x, y, bins, look) {
  svg.append(element("path", { d: `${stepLine(values, x, y, bins)}V${y(0)}Z`, ...look }));
}

const ticksOf = ({ ticks, high, tall }) => ticks ?? roundTicks(0, high, Math.max(tall / 25, 2));

// Where panels begin so that their amounts have space at the left.
const leftOf = (panels, least) => Math.max(least, ...panels.flatMap(ticksOf).map(([, said]) => Math.ceil(widthOf(said)) + 8));

// Draws panels, from `top` on, and the dates below them, or below `at`; returns the bottom of each.
//   panels: {name, flag, note, tall, high, ticks, draw}: the flag is what should not be, the note gives way to it
//   from: where the lines at dates begin
function stack(svg, panels, x, { left, right, top, from = top, ...dates }) {
  let bottom = top;
  const bottoms = panels.map(({ tall }) => (bottom += GAP + tall));
  dateAxis(svg, x, { ...dates, top: from, bottom });
  panels.forEach((panel, k) => {
    const { name, unit, flag, note, tall, high, draw } = panel;
    const y = linear(0, high, bottoms[k], bottoms[k] - tall), above = bottoms[k] - tall - 8;
    amountAxis(svg, y, ticksOf(panel), left, right);
    draw(svg, x, y);
    const warned = flag ? `▲ ${flag}` : "", space = right - left - widthOf(warned, true) - 30;
    let free = left + 2;
    for (const [words, role, strong] of [[fitted(unit ? `${name}, ${unit}` : name, space, true), "text", true], [warned, "pays", true], [note, "soft", false]]) {
      const said = words?.replaceAll(" ", NB);
      if (!said || (role === "soft" && free + widthOf(said) > right)) continue;
      svg.append(text(free, above, said, { class: strong ? "halo strong" : "halo", style: `fill:var(--${role})` }));
      free += widthOf(said, strong) + 14;
    }
  });
  return bottoms;
}

// A panel of panels.py: amounts with their limit, lines of energy, or the open periods of a gate.
function panelOf(one, bins, end, tall) {
  const { limit, mean, most = mean, fill = "var(--mark)", over, dates, drawn, available, open } = one;
  const path = (svg, d, look) => svg.append(element("path", { d, class: "line", ...look }));
  const area = (svg, x, from, to, y, height, look) =>
    svg.append(element("rect", { x: x(from), y, width: Math.max(x(to) - x(from), 2), height, ...look }));
  if (open)
    return { ...one, tall: 12, high: 1, ticks: [], draw(svg, x, y) {
      area(svg, x, bins.begin, end, y(1), 12, { fill: "var(--grid)" });
      for (const [from, to] of open)
        if (from < end && (to ?? end) > bins.begin) area(svg, x, Math.max(from, bins.begin), Math.min(to ?? end, end), y(1), 12, { fill: "var(--advised)" });
    } };
  if (drawn)
    return { ...one, tall, high: Math.max(drawn.at(-1), available.at(-1)), draw(svg, x, y) {
      const along = (values) => `M${values.map((value, k) => `${x(dates[k]).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}`;
      path(svg, `${along(drawn)}V${y(0)}H${x(dates[0])}Z`, { style: "fill:var(--mark)", opacity: 0.5 });
      path(svg, along(drawn), { stroke: "var(--mark)", "stroke-width": 2 });
      path(svg, along(available), { stroke: "var(--text)", "stroke-width": 1.5, "stroke-dasharray": "6 4" });
      dates.forEach((at, k) => {
        if (k && drawn[k] > available[k]) path(svg, `M${x(dates[k - 1])} ${y(drawn[k - 1])}L${x(at)} ${y(drawn[k])}`, { stroke: "var(--pays)", "stroke-width": 4 });
      });
    } };
  const high = [...(limit ?? []).map(([, level]) => level), ...most].reduce((a, b) => Math.max(a, b), 0);
  return { ...one, tall, high, draw(svg, x, y) {
    if (most !== mean) bars(svg, most, x, y, bins, { fill, opacity: 0.45 });
    bars(svg, mean, x, y, bins, { fill });
    if (limit) {
      const before = Math.max(limit.findLastIndex(([date]) => date <= bins.begin), 0);
      const changes = limit.filter(([date], k) => k > before && date < end), dense = 8 * changes.length > x(end);
      const steps = changes.map(([date, level]) => `H${x(date).toFixed(1)}V${y(level).toFixed(1)}`).join("");
      const d = `M${x(bins.begin)} ${y(limit[before][1])}${steps}H${x(end)}`;
      path(svg, d, { stroke: "var(--text)", "stroke-width": dense ? 0.4 : 1.5 });
    }
    for (const [k, low, used] of over ?? [])
      area(svg, x, bins.begin + k * bins.step, bins.begin + (k + 1) * bins.step, y(used), y(low) - y(used), { fill: "var(--pays)" });
  } };
}
