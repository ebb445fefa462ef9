// Opens a report without a browser: runs the page's script on the least document it needs, and prints as JSON the
// seconds until its first drawing is done, and what the page then says.
//
// node opening.js PAGE [RUN]: RUN is the number of the run to open, 0 by default.
"use strict";

const fs = require("node:fs");
const vm = require("node:vm");

const page = fs.readFileSync(process.argv[2], "utf8");
const number = process.argv[3] ?? "0";
const WIDTH = 1200; // of a chart in pixels

// An element that accepts everything; those found in it by a selector stay the same.
class Element {
  constructor() {
    this.found = {};
    this.children = [];
    Object.assign(this, { style: {}, dataset: {}, classList: { add() {}, toggle() {} }, width: 0, height: 0, value: "", textContent: "" });
    this.elements = new Proxy({}, { get: (of, name) => (of[name] ??= { value: name === "colour" ? "slowdown" : "" }) });
  }

  get parentElement() { return this; }

  get clientWidth() { return WIDTH; }

  querySelector(selector) {
    return (this.found[selector] ??= new Element());
  }

  querySelectorAll() { return [new Element(), new Element()]; }

  addEventListener() {}

  setAttribute() {}

  removeAttribute() {}

  append(...children) { this.children.push(...children); }

  replaceChildren(...children) { this.children = children; }

  insertCell() {
    const cell = new Element();
    this.children.push(cell);
    return cell;
  }

  getContext() { return pen; }

  getBoundingClientRect() { return { top: 0 }; }

  get text() { return this.textContent + this.children.map((child) => child.text ?? child).join(" "); }
}

const pen = new Proxy({
  createImageData: (width, height) => ({ width, height, data: new Uint8ClampedArray(4 * width * height) }),
  measureText: (text) => ({ width: 7 * text.length }),
}, { get: (of, name) => of[name] ?? (() => {}), set: () => true });

const place = new Element();
const run = Object.assign(new Element(), { id: `run-${number}`, open: true });
const frames = [];
let opened;
const ready = new Promise((resolve) => { opened = resolve; });

const open = `<script type="application/json" data-run="${number}">`;
const at = page.indexOf(open);
if (at < 0) throw new Error(`${process.argv[2]}: the page has no jobs of run ${number}`);
const data = { textContent: page.slice(at + open.length, page.indexOf("</script>", at)), remove() {} };
const script = page.slice(page.lastIndexOf("<script>") + 8, page.lastIndexOf("</script>"));

Object.assign(globalThis, {
  document: {
    querySelectorAll: (selector) => (selector === ".run" ? [run] : []),
    querySelector: () => data,
    getElementById: (id) => (id === `explore-${number}` ? place : null),
    createElement: () => new Element(),
    createElementNS: () => new Element(),
    documentElement: { dataset: { set ready(_) { opened(); } } },
  },
  location: { hash: "" },
  window: { devicePixelRatio: 1, innerHeight: 800, scrollY: 0 },
  addEventListener() {},
  matchMedia: () => new Element(),
  getComputedStyle: () => ({ getPropertyValue: () => "#808080" }),
  requestAnimationFrame: (draw) => frames.push(draw),
  ResizeObserver: class { observe() {} },
});

const began = performance.now();
vm.runInThisContext(script);
ready.then(() => {
  for (const draw of frames) draw();
  const seconds = (performance.now() - began) / 1000;
  const { explorer } = place;
  process.stdout.write(JSON.stringify({
    seconds,
    rows: explorer.run.length,
    matching: place.querySelector(".matching").text,
    legend: place.querySelector(".legend").children.map((item) => item.text.trim()),
    from: explorer.run.from,
    to: explorer.run.to,
    used: [...explorer.curves.curves[0].last],
    waiting: [...explorer.curves.curves[1].last],
    reasons: Object.fromEntries(explorer.run.waits.map(({ job }) => [job, reason(explorer.run, explorer.run.named(job))])),
    worst: explorer.place.querySelector("tbody.jobs").text,
  }));
});
