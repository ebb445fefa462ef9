// The machines over time, painted pixel by pixel: a pixel shows the job at the machine and time of its centre, a fair
// sample even of 300,000 jobs; jobs that match a filter are at least a pixel wide.
const LEFT = 58, RIGHT = 12, TOP = 8, HEIGHT = 416; // pixels around the machines, and in all

class Gantt {
  constructor(canvas, view, colours) {
    Object.assign(this, { canvas, view, colours, cursor: -1, top: TOP, pen: canvas.getContext("2d") });
    new ResizeObserver(() => view.redraw()).observe(canvas.parentElement);
    view.onchange(() => this.draw());
  }

  begin() {
    const scale = window.devicePixelRatio || 1;
    this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
    this.canvas.style.height = `${HEIGHT}px`;
    const [w, h] = [Math.round(this.width * scale), Math.round(HEIGHT * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    this.scale = scale;
    this.inner = this.width - LEFT - RIGHT;
    this.tall = HEIGHT - 2 * TOP;
    [this.ink, this.soft] = ["--text", "--soft"].map(hex);
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, this.width, HEIGHT);
    this.pen.font = "12px system-ui, sans-serif";
  }

  x(time) { return LEFT + ((time - this.view.from) / (this.view.to - this.view.from)) * this.inner; }

  time(x) { return this.view.from + ((x - LEFT) / this.inner) * (this.view.to - this.view.from); }

  y(machine) { return this.top + ((machine - this.view.low) / (this.view.high - this.view.low)) * this.tall; }

  machine(y) { return Math.floor(this.view.low + ((y - this.top) / this.tall) * (this.view.high - this.view.low)); }

  draw() {
    this.begin();
    const { pen, scale, view } = this;
    const image = pen.createImageData(Math.round(this.inner * scale), Math.round(this.tall * scale));
    this.paint(image);
    pen.putImageData(image, Math.round(LEFT * scale), Math.round(this.top * scale));
    this.labels();
    this.frame(this.cursor);
    const marks = roundTicks(view.low, view.high, 6).filter(([machine]) => machine % 1 === 0);
    this.marks = marks.length;
    Object.assign(pen, { textAlign: "right", textBaseline: "middle", fillStyle: this.soft });
    for (const [machine] of marks) pen.fillText(number(machine), LEFT - 6, Math.max(this.y(machine), 8));
  }

  paint(image) {
    const { run, from, to, low, high } = this.view;
    const { width, height } = image;
    const pixels = new Uint32Array(image.data.buffer);
    const perSecond = width / (to - from), perMachine = height / (high - low);
    const { idle, other, wash, hatching, of } = this.colours.inks();
    pixels.fill(idle);
    for (const [since, until, procs] of run.away ?? []) {
      const x0 = Math.max(Math.round((since - from) * perSecond), 0), x1 = Math.min(((until ?? to) - from) * perSecond, width);
      for (let y = 0; procs >= run.size && y < height; y++) // a part of the machines: which ones is not known
        for (let x = x0 + 6 - ((x0 + y) % 7); x < x1; x += 7) pixels[y * width + x] = other;
    }
    const filtered = run.matched < run.length;
    for (const wanted of filtered ? [0, 1] : [1]) {
      const least = filtered && wanted ? 1 : 0;
      for (let i = 0; i < run.length; i++) {
        if (run.matching[i] !== wanted || run.state[i] === REFUSED) continue;
        const start = run.start(i);
        if (start >= to || run.end[i] <= from) continue;
        const x0 = Math.max(Math.round((start - from) * perSecond), 0);
        let x1 = Math.min(Math.round((run.end[i] - from) * perSecond), width);
        if (x1 < x0 + least) x1 = Math.min(x0 + least, width);
        if (x1 <= x0) continue;
        const ink = wanted ? of(i) : other, hatched = hatching && wanted && ink === hatching;
        const gapX = x1 - x0 > 5 ? 1 : 0;
        for (let k = run.offset[i]; k < run.offset[i + 1]; k++) {
          const y0 = Math.max(Math.round((run.first[k] - low) * perMachine), 0);
          let y1 = Math.min(Math.round((run.first[k] + run.span[k] + 1 - low) * perMachine), height);
          if (y1 < y0 + least) y1 = Math.min(y0 + least, height);
          const gapY = y1 - y0 > 5 ? 1 : 0;
          const lines = hatched && gapX && gapY; // too small for lines: all of its ink
          for (let y = y0; y < y1 - gapY; y++) {
            pixels.fill(lines ? wash : ink, y * width + x0, y * width + x1 - gapX);
            for (let x = lines ? x0 + 6 - ((x0 + y) % 7) : x1; x < x1 - gapX; x += 7) pixels[y * width + x] = ink;
          }
        }
      }
    }
  }

  // The rectangles of a try on the screen: [x, y, width, height] each.
  boxes(i) {
    const { run } = this.view;
    const right = LEFT + this.inner, bottom = this.top + this.tall;
    const x0 = Math.max(this.x(run.start(i)), LEFT), x1 = Math.min(this.x(run.end[i]), right);
    const boxes = [];
    for (let k = run.offset[i]; k < run.offset[i + 1]; k++) {
      const y0 = Math.max(this.y(run.first[k]), this.top), y1 = Math.min(this.y(run.first[k] + run.span[k] + 1), bottom);
      if (x1 >= x0 && y1 > y0) boxes.push([x0, y0, x1 - x0, y1 - y0]);
    }
    return boxes;
  }

  // Names and marks, space permitting; the marks show without colour which jobs were killed and, by outcome, backfilled.
  labels() {
    const { pen } = this, { run, from, to } = this.view;
    if (((to - from) / (run.to - run.from)) * run.length > 20000) return;
    Object.assign(pen, { textAlign: "left", textBaseline: "middle" });
    for (let i = 0; i < run.length; i++) {
      if (!run.matching[i] || !run.ran(i) || run.start(i) >= to || run.end[i] <= from) continue;
      for (const [x, y, w, h] of this.boxes(i)) {
        if (w < 14 || h < 10) continue;
        pen.fillStyle = this.colours.text(i);
        if (this.colours.hatches(this.colours.place(i))) continue; // nothing is legible on lines
        if (run.state[i] === CUT || run.state[i] === REQUEUED) pen.fillRect(x + w - 4, y, 3, h - 1);
        if (run.known("backfilled", i) && this.colours.what === "fate") {
          pen.beginPath();
          pen.moveTo(x, y);
          pen.lineTo(x + 7, y);
          pen.lineTo(x, y + 7);
          pen.fill();
        }
        const name = run.name_of(i);
        if (w > 12 + name.length * 7 && h >= 13) pen.fillText(name, x + 8, y + h / 2);
      }
    }
  }

  frame(i) {
    if (i < 0) return;
    this.pen.strokeStyle = this.ink;
    this.pen.lineWidth = 2;
    for (const [x, y, w, h] of this.boxes(i)) this.pen.strokeRect(x - 1, y - 1, Math.max(w, 1) + 1, h + 1);
  }
}
