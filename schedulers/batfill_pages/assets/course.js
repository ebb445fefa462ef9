// One run at a glance, on one axis of time: its longest waits as bars from submission to start, the queue, and the
// machine. Returns the chart; `pick` is called with the number of a wait that was clicked, `chosen.wait` is the one
// marked.
function course(place, { course: { begin, step, queue, used }, panels, waits, away = [] }, clock, chosen, pick) {
  const end = begin + step * queue.length, bins = { begin, step };
  const words = waits.map(({ job, submit, start }) => `job ${job} ${duration(start - submit)}`);
  const [least, top] = [Math.min(...used), Math.max(...used)].map((share) => number(100 * share, 0));
  const most = queue.reduce((a, b) => Math.max(a, b), 1);
  const label = `${words.length ? `The longest waits: ${words.join(", ")}. ` : ""}`
    + `Up to ${number(most, 0)} jobs wait at a time; utilisation is between ${least} and ${top} %.`
    + panels.map(({ name, flag, note }) => ` ${name}: ${flag ? `${flag}; ` : ""}${note}.`).join("");
  return chart(place, (width) => {
    const small = width < 560, rows = waits.length * 16; // at most: only the window's height depends on it
    const room = window.innerHeight - place.getBoundingClientRect().top - window.scrollY - rows - 144;
    const rest = Math.max(150, Math.min(printing ? 240 - 90 * !!panels.length : small ? 300 : room, 320));
    const tall = panels.length > 4 || printing ? 44 : 64; // on paper all is below the answer
    const stacked = [
      { name: "jobs waiting", tall: 0.58 * rest, high: most, ticks: wholeTicks(most),
        draw: (svg, x, y) => bars(svg, queue, x, y, bins, { fill: "var(--advised)" }) },
      { name: "utilisation, %", tall: 0.42 * rest, high: 1, ticks: [[0, "0"], [0.5, "50"], [1, "100"]],
        draw: (svg, x, y) => bars(svg, used, x, y, bins, { fill: "var(--mark)" }) },
      ...panels.map((one) => panelOf(one, bins, end, tall)),
    ];
    const left = leftOf(stacked, small ? 34 : 44), right = width - 24, x = linear(begin, end, left, right);
    const placed = lanes(waits, x, width), above = Math.max(...placed.map(({ row }) => row + 1), 0) * 16;
    const high = stacked.reduce((sum, one) => sum + GAP + one.tall, above), svg = picture(width, high + 40, label);
    const [bottom] = stack(svg, stacked, x, { clock, begin, end, left, right, width, top: above, from: 0 }).slice(-1);
    const from = left + widthOf(stacked[1].name) + 32; // the axis's title stands before
    if (away.length) windows(svg, away, { x, begin, end, bottom, from, name: above + GAP + 0.58 * rest + 20 });
    for (const { k, name, from, to, row, before } of placed) {
      const y = 4 + row * 16, on = k === chosen.wait;
      const look = { fill: "var(--pays)", stroke: on ? "var(--text)" : "none", "stroke-width": 2 };
      const at = { class: "halo strong", style: "fill:var(--pays)", "text-anchor": before ? "end" : "start" };
      const bar = element("g", { class: "pick" }, element("title", {}, words[k].replace(" ", NB)),
        element("rect", { x: from - 2, y: y - 2, width: to - from + 24, height: 16, fill: "transparent" }),
        element("rect", { x: from, y: y + 1, width: to - from, height: 9, rx: 2, ...look }),
        text(before ? from - 5 : to + 5, y + 10, name, at));
      if (on) bar.append(line(to, y + 10, to, bottom, { stroke: "var(--text)", "stroke-dasharray": "2 3" }));
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
function windows(svg, away, { x, begin, end, bottom, from: free, name }) {
  const look = { id: "away", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const stripe = line(0, 0, 0, 6, { stroke: "var(--soft)", "stroke-width": 2 });
  svg.append(element("defs", {}, element("pattern", look, stripe)));
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
