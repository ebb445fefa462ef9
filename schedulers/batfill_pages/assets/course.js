// One run at a glance, on one axis of time: its longest waits as bars from submission to start, the queue, and the
// machine. Returns the chart; `pick` is called with the number of a wait that was clicked, `chosen.wait` is the one
// marked.
function course(place, { course: { begin, step, queue, used }, waits, away = [] }, clock, chosen, pick) {
  const end = begin + step * queue.length, most = queue.reduce((a, b) => Math.max(a, b), 1);
  const words = waits.map(({ job, submit, start }) => `job ${job} ${duration(start - submit)}`);
  const [least, top] = [Math.min(...used), Math.max(...used)].map((share) => number(100 * share, 0));
  const label = `${words.length ? `The longest waits: ${words.join(", ")}. ` : ""}`
    + `Up to ${number(most, 0)} jobs wait at a time; utilisation is between ${least} and ${top} %.`;
  return chart(place, (width) => {
    const small = width < 560, left = small ? 34 : 44, right = width - 24, x = linear(begin, end, left, right);
    const bars = lanes(waits, x, width);
    const above = Math.max(...bars.map(({ row }) => row + 1), 0) * 16 + 28;
    const room = window.innerHeight - place.getBoundingClientRect().top - window.scrollY - above - 116;
    const rest = Math.max(150, Math.min(printing ? 240 : small ? 300 : room, 320));
    const tops = [above, above + 0.58 * rest + 28], bottoms = [above + 0.58 * rest, above + rest + 28];
    const svg = picture(width, bottoms[1] + 40, label);
    for (const [at, ...lines] of clock.ticks(begin, end, small ? 3 : 8)) {
      const half = Math.max(...lines.map((said) => widthOf(said))) / 2;
      const middle = Math.min(Math.max(x(at), half), width - half);
      svg.append(line(x(at), 0, x(at), bottoms[1], { class: "grid" }));
      for (const [row, said] of lines.entries())
        svg.append(text(middle, bottoms[1] + 16 * (row + 1), said, { class: "soft", "text-anchor": "middle" }));
    }
    const whole = roundTicks(0, most, 4).map(([value]) => [value, number(value)]).filter(([value]) => value % 1 === 0);
    const panels = [
      [queue, most, whole, "var(--advised)", "jobs waiting"],
      [used, 1, [[0, "0"], [0.5, "50"], [1, "100"]], "var(--mark)", "utilisation, %"],
    ];
    panels.forEach(([values, high, ticks, fill, name], k) => {
      const y = linear(0, high, bottoms[k], tops[k]);
      for (const [value, said] of ticks) {
        svg.append(line(left, y(value), right, y(value), { class: "grid" }));
        svg.append(text(left - 6, y(value) + 4, said, { "text-anchor": "end", class: "soft" }));
      }
      const ends = Array.from(values, (_, i) => x(begin + (i + 1) * step).toFixed(1));
      const steps = Array.from(values, (value, i) => `V${y(value).toFixed(1)}H${ends[i]}`);
      svg.append(element("path", { d: `M${left} ${bottoms[k]}${steps.join("")}V${bottoms[k]}Z`, fill }));
      svg.append(text(left + 2, tops[k] - 8, name, { class: "halo strong" }));
    });
    if (away.length) windows(svg, away, { x, begin, end, bottom: bottoms[1], name: tops[1] - 8 });
    for (const { k, name, from, to, row, before } of bars) {
      const y = 4 + row * 16, on = k === chosen.wait;
      const look = { fill: "var(--pays)", stroke: on ? "var(--text)" : "none", "stroke-width": 2 };
      const at = { class: "halo strong", style: "fill:var(--pays)", "text-anchor": before ? "end" : "start" };
      const bar = element("g", { class: "pick" }, element("title", {}, words[k].replace(" ", NB)),
        element("rect", { x: from - 2, y: y - 2, width: to - from + 24, height: 16, fill: "transparent" }),
        element("rect", { x: from, y: y + 1, width: to - from, height: 9, rx: 2, ...look }),
        text(before ? from - 5 : to + 5, y + 10, name, at));
      if (on) bar.append(line(to, y + 10, to, bottoms[1], { stroke: "var(--text)", "stroke-dasharray": "2 3" }));
      bar.addEventListener("click", () => pick(k));
      svg.append(bar);
    }
    return svg;
  });
}

// The waits as bars, each in the first row that is free where it and its name begin; the longest has its duration.
function lanes(waits, x, width) {
  const free = [];
  const bars = waits.map(({ submit, start }, k) => {
    const from = x(submit), to = Math.max(x(start), from + 3), long = `1 · ${duration(start - submit)}`;
    const room = widthOf(long, true) + 6, before = k === 0 && to + room > width && from > room;
    const name = k === 0 && (before || to + room <= width) ? long : `${k + 1}`, wide = widthOf(name, true) + 6;
    return { k, name, from, to, before, low: before ? from - wide : from, high: before ? to : to + wide };
  });
  for (const bar of [...bars].sort((a, b) => a.low - b.low)) {
    bar.row = free.findIndex((at) => at + 4 < bar.low);
    if (bar.row < 0) bar.row = free.length;
    free[bar.row] = bar.high;
  }
  return bars;
}

// Times out of service as hatched bands over everything, with their processors where there is room.
function windows(svg, away, { x, begin, end, bottom, name }) {
  const look = { id: "away", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const stripe = line(0, 0, 0, 6, { stroke: "var(--soft)", "stroke-width": 2 });
  svg.append(element("defs", {}, element("pattern", look, stripe)));
  let free = 0;
  for (const [since, until, procs] of away) {
    const from = x(Math.max(since, begin)), to = x(Math.min(until ?? end, end));
    if (to < from) continue;
    const said = `${number(procs)} processors out of service${until === null ? "" : ` for ${duration(until - since)}`}`;
    const band = { x: from, y: 0, width: Math.max(to - from, 1), height: bottom, fill: "url(#away)", opacity: 0.45 };
    svg.append(element("rect", band, element("title", {}, said)));
    const words = `${number(procs)} out`, half = widthOf(words) / 2, middle = (from + to) / 2;
    if (middle - half < free) continue;
    svg.append(text(middle, name, words, { class: "halo", "text-anchor": "middle" }));
    free = middle + half + 8;
  }
}
