// Amounts of jobs in the span of the view, as panels below the machines, with the dates of both between them.
class Curves {
  // curves: {name, fill, length, begin, end, amount, high, limit}: `amount(i)` counts from `begin(i)` to `end(i)`, for
  //   i < `length`; a job that was rejected has no length of time. `high` is the top of the axis, or 0 for the largest
  //   mean; `limit` what there is from dates on.
  constructor(place, view, curves) {
    Object.assign(this, { place, view, curves });
    new ResizeObserver(() => view.redraw()).observe(place);
    view.onchange(() => this.draw());
  }

  draw() {
    const { place, view: { from, to, run: { clock } } } = this, width = Math.max(place.clientWidth, 200);
    const right = width - RIGHT, inner = right - LEFT, bins = { begin: from, step: (to - from) / inner };
    this.panels = this.curves.map((curve) => {
      const mean = (curve.last = this.means(curve, inner)), panel = panelOf({ ...curve, mean, over: above(curve, mean, bins) }, bins, to, 92);
      return { ...panel, high: curve.high || panel.high || 1 };
    });
    const said = this.curves.map(({ name, last }) => `${name}, at most ${number(last.reduce((a, b) => Math.max(a, b), 0))}`);
    const svg = picture(width, this.curves.length * (92 + GAP) + 48, `Means over time: ${said.join("; ")}.`);
    stack(svg, this.panels, linear(from, to, LEFT, right), { clock, begin: from, end: to, left: LEFT, right, width, at: 0, top: 40 });
    place.replaceChildren(svg);
  }

  // The means in so many equal parts of the span.
  means({ length, begin, end, amount: amountOf }, width) {
    const { from, to } = this.view;
    const means = new Float64Array(width), step = new Float64Array(width + 1);
    const perSecond = width / (to - from);
    for (let i = 0; i < length; i++) {
      const a = Math.max((begin(i) - from) * perSecond, 0), b = Math.min((end(i) - from) * perSecond, width);
      if (b <= a) continue;
      const amount = amountOf(i), first = Math.floor(a), last = Math.min(Math.floor(b), width - 1);
      if (first === last) { means[first] += amount * (b - a); continue; }
      means[first] += amount * (first + 1 - a);
      means[last] += amount * (b - last);
      step[first + 1] += amount;
      step[last] -= amount;
    }
    let level = 0;
    for (let k = 0; k < width; k++) means[k] += level += step[k];
    return means;
  }
}

// The bins in which the mean is more than there is at their middle.
function above({ limit = [[-Infinity, Infinity]] }, mean, { begin, step }) {
  const found = [];
  let k = 0;
  mean.forEach((used, bin) => {
    while (k + 1 < limit.length && limit[k + 1][0] <= begin + (bin + 0.5) * step) k++;
    if (used > limit[k][1] * (1 + 1e-6)) found.push([bin, limit[k][1], used]);
  });
  return found;
}
