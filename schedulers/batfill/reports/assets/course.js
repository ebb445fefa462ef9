// One run at a glance, on one axis of time: its longest waits as bars from submission to start, the queue, and the
// machine. Returns the chart; `pick` is called with the number of a wait that
// was clicked, `chosen.wait` is the one marked.
function course(place, { course: { begin, step, queue, used }, waits, away = [] }, clock, chosen, pick) {
  const end = begin + step * queue.length, most = queue.reduce((a, b) => Math.max(a, b), 1);
  const jobs = waits.map(({ job, submit, start }) => `job ${job} ${duration(start - submit)}`).join(", ");
  const label = `${jobs && `The longest waits: ${jobs}. `}Up to ${number(most, 0)} jobs wait at a time; `
    + `utilisation is between ${number(100 * Math.min(...used), 0)} and ${number(100 * Math.max(...used), 0)} %.`;
  return chart(place, (width) => {
    const small = width < 560, left = small ? 34 : 44, right = width - 4, x = linear(begin, end, left, right);
    // A bar takes the first row that is free where it and its name begin.
    const bars = waits.map((wait, k) => {
      const words = k ? `${k + 1}` : `1 · ${duration(wait.start - wait.submit)}`, wide = widthOf(words, true) + 6;
      const from = x(wait.submit), to = Math.max(x(wait.start), from + 3), before = to + wide > right;
      return { k, wait, words, from, to, before, low: before ? from - wide : from, high: before ? to : to + wide };
    });
    const free = [];
    for (const bar of [...bars].sort((a, b) => a.low - b.low)) {
      bar.row = free.findIndex((at) => at + 4 < bar.low);
      if (bar.row < 0) bar.row = free.length;
      free[bar.row] = bar.high;
    }
    const above = free.length * 16 + 28, space = window.innerHeight - place.getBoundingClientRect().top - window.scrollY - 48;
    const rest = Math.max(150, Math.min(printing ? 240 : small ? 300 : space - above - 68, 320));
    const tops = [above, above + 0.58 * rest + 28], bottoms = [above + 0.58 * rest, above + rest + 28];
    const svg = picture(width, bottoms[1] + 40, label);
    for (const [at, words, below] of clock.ticks(begin, end, small ? 3 : 8)) {
      const half = Math.max(widthOf(words), widthOf(below)) / 2, middle = Math.min(Math.max(x(at), half), width - half);
      svg.append(line(x(at), 0, x(at), bottoms[1], { class: "grid" }));
      for (const [row, said] of [words, below].entries())
        svg.append(text(middle, bottoms[1] + 16 * (row + 1), said, { class: "soft", "text-anchor": "middle" }));
    }
    const panels = [
      [queue, most, roundTicks(0, most, 4).filter(([value]) => Number.isInteger(value)), "var(--advised)", "jobs waiting"],
      [used, 1, [[0, "0"], [0.5, "50"], [1, "100"]], "var(--mark)", "utilisation, %"],
    ];
    panels.forEach(([values, top, ticks, fill, name], k) => {
      const y = linear(0, top, bottoms[k], tops[k]);
      for (const [value, words] of ticks)
        svg.append(line(left, y(value), right, y(value), { class: "grid" }),
          text(left - 6, y(value) + 4, words, { "text-anchor": "end", class: "soft" }));
      const steps = Array.from(values, (value, i) => `V${y(value).toFixed(1)}H${x(begin + (i + 1) * step).toFixed(1)}`);
      svg.append(element("path", { d: `M${left} ${bottoms[k]}${steps.join("")}V${bottoms[k]}Z`, fill }));
      svg.append(text(left + 2, tops[k] - 8, name, { class: "halo strong" }));
    });
    if (away.length) windows(svg, away, { x, begin, end, bottom: bottoms[1], name: tops[1] - 8 });
    for (const { k, wait, words, from, to, row, before } of bars) {
      const y = 4 + row * 16, on = k === chosen.wait, stroke = on ? "var(--text)" : "none";
      const bar = element("g", { class: "pick" }, element("title", {}, `job ${wait.job} waited ${duration(wait.start - wait.submit)}`),
        element("rect", { x: from - 2, y: y - 2, width: to - from + 24, height: 16, fill: "transparent" }),
        element("rect", { x: from, y: y + 1, width: to - from, height: 9, rx: 2, fill: "var(--pays)", stroke, "stroke-width": 2 }),
        text(before ? from - 5 : to + 5, y + 10, words, { class: "halo strong", style: "fill:var(--pays)", "text-anchor": before ? "end" : "start" }));
      if (on) bar.append(line(to, y + 10, to, bottoms[1], { stroke: "var(--text)", "stroke-dasharray": "2 3" }));
      bar.addEventListener("click", () => pick(k));
      svg.append(bar);
    }
    return svg;
  });
}

// Times out of service as hatched bands over everything, with their processors where there is space.
function windows(svg, away, { x, begin, end, bottom, name }) {
  const hatch = element("pattern", { id: "away", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    line(0, 0, 0, 6, { stroke: "var(--soft)", "stroke-width": 2 }));
  svg.append(element("defs", {}, hatch));
  let free = 0;
  for (const [since, until, procs] of away) {
    const from = x(Math.max(since, begin)), to = x(Math.min(until ?? end, end));
    if (to < from) continue;
    const words = `${number(procs, 0)} away`, half = widthOf(words) / 2, middle = (from + to) / 2;
    const said = `${number(procs, 0)} processors out of service${until === null ? "" : ` for ${duration(until - since)}`}`;
    svg.append(element("rect", { x: from, y: 0, width: Math.max(to - from, 1), height: bottom, fill: "url(#away)", opacity: 0.45 },
      element("title", {}, said)));
    if (middle - half < free) continue;
    svg.append(text(middle, name, words, { class: "halo", "text-anchor": "middle" }));
    free = middle + half + 8;
  }
}
