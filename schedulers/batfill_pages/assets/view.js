// The visible range of time and machines; charts that share a view move together.
class View {
  constructor(run) {
    this.run = run;
    this.shown = [];
    this.past = [];
    this.whole();
  }

  onchange(show) { this.shown.push(show); }

  whole() { this.past = []; this.set(this.run.from, this.run.to, 0, this.run.size, false); }

  set(from, to, low, high, remember = true) {
    const { run } = this;
    if (remember) this.past.push([this.from, this.to, this.low, this.high]);
    const width = Math.min(Math.max(to - from, 1), run.to - run.from);
    const height = Math.min(Math.max(high - low, 1), run.size);
    this.from = Math.min(Math.max(from, run.from), run.to - width);
    this.to = this.from + width;
    this.low = Math.min(Math.max(low, 0), run.size - height);
    this.high = this.low + height;
    this.redraw();
  }

  back() {
    const old = this.past.pop();
    if (old) this.set(...old, false);
    else this.whole();
  }

  redraw() {
    if (this.due) return;
    this.due = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.due = 0;
    for (const show of this.shown) show();
  }

  zoom(factor, time = (this.from + this.to) / 2) {
    this.set(...stretched(this.from, this.to, factor, time), this.low, this.high, false);
  }

  zoomMachines(factor, machine = (this.low + this.high) / 2) {
    this.set(this.from, this.to, ...stretched(this.low, this.high, factor, machine), false);
  }

  pan(time, machines) {
    this.set(this.from + time, this.to + time, this.low + machines, this.high + machines, false);
  }

  // Make this try visible; if it is, nothing moves.
  reveal(i) {
    const { run } = this;
    const start = run.start(i), middle = (start + run.end[i]) / 2, width = this.to - this.from;
    const seen = start < this.to && run.end[i] > this.from;
    const machine = run.first[run.offset[i]] ?? this.low, height = this.high - this.low;
    const inside = machine >= this.low && machine < this.high;
    if (seen && inside) this.redraw();
    else this.set(seen ? this.from : middle - width / 2, seen ? this.to : middle + width / 2,
      inside ? this.low : machine - height / 2, inside ? this.high : machine + height / 2, false);
  }
}

// A range that is so many times as wide, around a place in it that stays.
const stretched = (low, high, factor, at) => [at - (at - low) * factor, at + (high - at) * factor];
