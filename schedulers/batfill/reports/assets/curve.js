// An amount averaged over each pixel's time: busy processors, waiting jobs.
class Curve extends Plot {
  // `amount(i)` counts from `begin(i)` to `end(i)`, for i < `length`; `top` is the top of the axis, or 0 for the largest
  // value. A job that was rejected has no length of time. `away` is another amount, which hangs from the top in grey.
  constructor(canvas, view, { length, begin, end, amount, top, unit, colour, away }) {
    super(canvas, view, 138, 8, BELOW);
    Object.assign(this, { length, since: begin, until: end, amount, most: top, unit, colour, away });
    view.onchange(() => this.draw());
  }

  draw() {
    this.begin();
    const means = this.means(Math.round(this.inner));
    const most = this.most || Math.max(means.reduce((a, b) => Math.max(a, b), 0), 1);
    const { pen } = this, bottom = this.top + this.tall;
    const y = (value) => bottom - (value / most) * this.tall;
    const ticks = roundTicks(0, most, 5);
    this.marks = ticks.length;
    for (const [tick, words] of ticks) {
      pen.fillStyle = this.line;
      pen.fillRect(LEFT, y(tick), this.inner, 1);
      this.leftLabel(words + this.unit, Math.max(y(tick), 8));
    }
    pen.beginPath();
    pen.moveTo(LEFT, bottom);
    means.forEach((mean, k) => { pen.lineTo(LEFT + k, y(mean)); pen.lineTo(LEFT + k + 1, y(mean)); });
    pen.lineTo(LEFT + means.length, bottom);
    pen.fillStyle = this.colour;
    pen.globalAlpha = 0.35;
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = this.colour;
    pen.stroke();
    pen.fillStyle = this.soft;
    pen.globalAlpha = 0.5;
    if (this.away)
      this.means(Math.round(this.inner), this.away).forEach((mean, k) => {
        if (mean > 0) pen.fillRect(LEFT + k, this.top, 1, y(most - mean) - this.top);
      });
    pen.globalAlpha = 1;
    this.timeAxis();
    this.last = means;
  }

  means(width, { length, since, until, amount: amountOf } = this) {
    const { from, to } = this.view;
    const means = new Float64Array(width), step = new Float64Array(width + 1);
    const perSecond = width / (to - from);
    for (let i = 0; i < length; i++) {
      const a = Math.max((since(i) - from) * perSecond, 0), b = Math.min((until(i) - from) * perSecond, width);
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
