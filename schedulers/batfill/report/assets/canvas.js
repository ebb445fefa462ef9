// A canvas as wide as its place, sharp on any screen, in the page's colours.
const LEFT = 58, RIGHT = 8;

class Plot {
  constructor(canvas, view, height, top, bottom) {
    Object.assign(this, { canvas, view, height, top, bottom, pen: canvas.getContext("2d") });
    new ResizeObserver(() => view.redraw()).observe(canvas.parentElement);
  }

  begin() {
    const scale = window.devicePixelRatio || 1;
    this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
    this.canvas.style.height = `${this.height}px`;
    const [w, h] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    this.scale = scale;
    this.inner = this.width - LEFT - RIGHT;
    this.tall = this.height - this.top - this.bottom;
    const style = getComputedStyle(this.canvas);
    this.ink = style.getPropertyValue("--ink").trim();
    this.soft = style.getPropertyValue("--soft").trim();
    this.line = style.getPropertyValue("--line").trim();
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.pen.font = "12px system-ui, sans-serif";
  }

  x(time) { return LEFT + ((time - this.view.from) / (this.view.to - this.view.from)) * this.inner; }

  time(x) { return this.view.from + ((x - LEFT) / this.inner) * (this.view.to - this.view.from); }

  timeAxis() {
    const { pen, view } = this, bottom = this.top + this.tall;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const t of timeTicks(view.from, view.to, this.inner / 110)) {
      const x = this.x(t);
      pen.fillStyle = this.line;
      pen.fillRect(x, bottom, 1, 4);
      pen.fillStyle = this.soft;
      if (x < this.width - 30) pen.fillText(timeLabel(t, view.to - view.from), x, bottom + 6);
    }
  }

  leftLabel(text, y) {
    this.pen.textAlign = "right";
    this.pen.textBaseline = "middle";
    this.pen.fillStyle = this.soft;
    this.pen.fillText(text, LEFT - 6, y);
  }
}
