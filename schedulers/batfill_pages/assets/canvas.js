// A canvas as wide as its container, sharp on any screen, in the page's colours.
const LEFT = 58, RIGHT = 12, BELOW = 38; // pixels; below are two lines of dates

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
    this.ink = style.getPropertyValue("--text").trim();
    this.soft = style.getPropertyValue("--soft").trim();
    this.line = style.getPropertyValue("--border").trim();
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.pen.font = "12px system-ui, sans-serif";
  }

  x(time) { return LEFT + ((time - this.view.from) / (this.view.to - this.view.from)) * this.inner; }

  time(x) { return this.view.from + ((x - LEFT) / this.inner) * (this.view.to - this.view.from); }

  timeAxis() {
    const { pen, view } = this, bottom = this.top + this.tall;
    pen.textBaseline = "top";
    this.ticks = view.run.clock.ticks(view.from, view.to, this.inner < 500 ? 3 : 5);
    let free = 0; // where the line below is still empty
    for (const [t, words, below] of this.ticks) {
      const x = this.x(t);
      pen.fillStyle = this.line;
      pen.fillRect(x, bottom, 1, 4);
      pen.fillStyle = this.soft;
      [words, below].forEach((text, row) => {
        const half = pen.measureText(text).width / 2, middle = Math.min(Math.max(x, half), this.width - half);
        if (row && middle - half < free) return;
        pen.textAlign = "center";
        pen.fillText(text, middle, bottom + 6 + 14 * row);
        if (row) free = middle + half + 6;
      });
    }
  }

  leftLabel(text, y) {
    this.pen.textAlign = "right";
    this.pen.textBaseline = "middle";
    this.pen.fillStyle = this.soft;
    this.pen.fillText(text, LEFT - 6, y);
  }
}
