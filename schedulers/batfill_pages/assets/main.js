// One explorer: the charts of one run, its filter, and their pointer and keyboard controls.
class Explorer {
  constructor(place, run, number, mark) {
    Object.assign(this, { place, run, number, mark });
    run.matched = run.length;
    this.view = new View(run);
    this.colours = new Colours(run);
    this.gantt = new Gantt(place.querySelector(".gantt"), this.view, this.colours);
    this.curves = new Curves(place.querySelector(".curves"), this.view, run.drawn ? curvesOfAll(run) : curvesOfJobs(run));
    this.said = place.querySelector(".said");
    this.form = place.querySelector("form");
    this.form.addEventListener("input", () => this.refilter());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => setTimeout(() => this.refilter()));
    for (const button of place.querySelectorAll("[data-do]"))
      button.addEventListener("click", () => this.act(button.dataset.do));
    const dates = place.querySelector(".shown");
    const { view } = this;
    view.onchange(() => { dates.textContent = `from ${run.clock.text(view.from)} to ${run.clock.text(view.to)}`; });
    this.tabular();
    this.pointer();
    this.gantt.canvas.addEventListener("keydown", (event) => {
      const what = KEYS[event.key];
      if (!what || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.act(what);
    });
    for (const media of ["(prefers-color-scheme: dark)", "print"]) // a printer does not wait for the next frame
      matchMedia(media).addEventListener("change", () => this.view.draw());
    this.refilter();
    if (run.waits.length) this.pick(run.waits[0].job);
  }

  // Any job, and one of its tries or the last: why it waited, and the machines around its start. Returns the text's place.
  pick(id, number) {
    const { run, place } = this, row = run.named(id, number), why = place.querySelector(".why"), ran = row >= 0 && run.ran(row);
    const words = `job ${row < 0 ? id : run.ids[row]}${number ? `, try ${number},` : ""}`;
    why.hidden = false;
    why.querySelector(":first-child").textContent = ran && run.wait[row] > 0 ? `Why ${words} waited ${duration(run.wait[row])}`
      : `J${words.slice(1).replace(/,$/, "")}`;
    why.querySelector("p").textContent = row >= 0 ? reason(run, row) : `This ${run.drawn ? "sample of the run" : "run"} has no such job.`;
    const chosen = run.waits.findIndex(({ job }) => ran && job === run.ids[row] && run.counts(row));
    if (chosen >= 0) this.mark(chosen);
    place.querySelectorAll("[data-row]").forEach((one, k) => one.classList.toggle("chosen", k === chosen));
    if (ran) this.centre(row, run.start(row));
    return why;
  }

  centre(row, start) {
    const { run } = this;
    this.colours.wait = row;
    this.form.elements.colour.value = "rush";
    this.recolour();
    this.gantt.cursor = row;
    this.describe(row);
    this.view.set(start - 2.5 * DAY, start + 0.5 * DAY, 0, run.size);
  }

  refilter() {
    applyFilter(this.run, this.form, this.colours);
    this.place.querySelector(".matching").textContent = summaryOfMatching(this.run);
    this.recolour();
    this.reorder();
    this.view.redraw();
  }

  // The colours that the form says, and their legend.
  recolour() {
    this.colours.choose(this.form.elements.colour.value);
    const counts = this.colours.counts();
    const items = this.colours.legend.map(([colour, words], k) => {
      const item = document.createElement("li"), patch = document.createElement("span");
      patch.style.background = colour.startsWith("--") ? `var(${colour})` : colour;
      if (this.colours.hatches(k)) patch.className = "hatched";
      item.append(patch, this.colours.what !== "rush" ? `${words} (${number(counts[k])})` : words);
      return item;
    });
    this.place.querySelector(".legend").replaceChildren(...items);
  }

  // The table's head, its order, its pages and its download.
  tabular() {
    const head = this.place.querySelector(".jobs-table thead tr");
    this.columns = JOB_COLUMNS.filter(({ needs }) => !needs || this.run[needs]);
    head.innerHTML = this.columns.map(({ title }) => `<th scope="col"><button>${title}</button></th>`).join("");
    head.addEventListener("click", ({ target }) => {
      if (target.matches("button")) this.reorder(this.columns[target.parentElement.cellIndex].name);
    });
    for (const button of this.place.querySelectorAll("[data-page]"))
      button.addEventListener("click", () => { this.page += Number(button.dataset.page); this.table(); });
    this.place.querySelector(".csv").addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
      link.download = `${this.run.file}_report_jobs.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  csv() { return csvOf(this.run, this.rows()); }

  rows() { return (this.sorted ??= ordered(this.run, this.by)); }

  reorder(by = this.by ?? "bsld") {
    Object.assign(this, { by, sorted: null, page: 0 });
    this.place.querySelectorAll(".jobs-table th").forEach((cell, k) => {
      const { name } = this.columns[k];
      if (name === by) cell.setAttribute("aria-sort", FROM_FIRST.has(name) ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    this.table();
  }

  table() {
    const { run } = this, first = this.page * SHOWN;
    const rows = [...this.rows().subarray(first, first + SHOWN)].map((i) => {
      const row = document.createElement("tr");
      this.columns.forEach((column, k) => {
        const cell = row.insertCell();
        cell.dataset.label = column.title;
        if (["submit_s", "start_s", "end_s"].includes(column.name)) cell.className = "date";
        cell.append(k ? shownOf(column, run, i) : this.link(i));
        if (column.name !== "try") return;
        const first = i - run.attempt[i];
        for (let other = first; other < first + run.tries(i); other++)
          if (other !== i) cell.append(" ", this.link(other, `try ${run.attempt[other] + 1}`));
      });
      return row;
    });
    this.place.querySelector("tbody.jobs").replaceChildren(...rows);
    this.place.querySelector(".rows").textContent = rows.length
      ? `${run.tried ? "tries" : "jobs"} ${number(first + 1)} to ${number(first + rows.length)} of ${number(run.matched)}` : "none";
    const [earlier, later] = this.place.querySelectorAll("[data-page]");
    earlier.disabled = this.page === 0;
    later.disabled = first + rows.length >= run.matched;
  }

  // Move to a job, frame it and describe it.
  goto(i) {
    this.gantt.cursor = i;
    this.describe(i);
    this.view.reveal(i);
  }

  describe(i) { this.said.replaceChildren(details(this.run, i), " ", this.link(i, "Why did it wait?")); }

  // A link to a try: its address names it, so that a ticket can.
  link(i, words = this.run.ids[i]) {
    const link = document.createElement("a"), { run } = this, number = run.tries(i) > 1 ? `&try=${run.attempt[i] + 1}` : "";
    link.href = `#job=${encodeURIComponent(run.ids[i])}${number}${this.number ? `&run=${this.number}` : ""}`;
    link.textContent = words;
    return link;
  }

  // The next matching job, by row.
  step(by) {
    const { run } = this;
    for (let i = this.gantt.cursor + by; i >= 0 && i < run.length; i += by)
      if (run.matching[i] && run.ran(i)) return this.goto(i);
    this.said.textContent = "No more jobs.";
  }

  act(what) {
    const { view } = this, time = (view.to - view.from) / 5, machines = (view.high - view.low) / 5;
    ({
      in: () => view.zoom(1 / 1.6), out: () => view.zoom(1.6), all: () => view.whole(), back: () => view.back(),
      left: () => view.pan(-time, 0), right: () => view.pan(time, 0),
      up: () => view.pan(0, -machines), down: () => view.pan(0, machines),
      taller: () => view.zoomMachines(1 / 1.6), smaller: () => view.zoomMachines(1.6),
      next: () => this.step(1), previous: () => this.step(-1),
    })[what]();
  }

  // Drag to zoom into a rectangle, with shift to move; the wheel zooms once the chart has the focus.
  pointer() {
    const { gantt, view } = this, { canvas } = gantt, box = this.place.querySelector(".selection");
    const at = (event) => {
      const area = canvas.getBoundingClientRect();
      return [event.clientX - area.left, event.clientY - area.top];
    };
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      from = at(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (!from) return this.hover(x, y);
      if (event.shiftKey) {
        view.pan(gantt.time(from[0]) - gantt.time(x), 0);
        from = [x, y];
        return;
      }
      box.hidden = false;
      Object.assign(box.style, {
        left: `${Math.min(x, from[0])}px`, top: `${Math.min(y, from[1])}px`,
        width: `${Math.abs(x - from[0])}px`, height: `${Math.abs(y - from[1])}px`,
      });
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = at(event);
      box.hidden = true;
      if (from && !event.shiftKey && Math.abs(x - from[0]) > 4 && Math.abs(y - from[1]) > 4) {
        const times = [gantt.time(from[0]), gantt.time(x)].sort((a, b) => a - b);
        const machines = [gantt.machine(from[1]), gantt.machine(y)].sort((a, b) => a - b);
        view.set(...times, machines[0], machines[1] + 1);
      } else if (from && !event.shiftKey) {
        const i = this.run.at(gantt.time(x), gantt.machine(y));
        if (i >= 0) this.goto(i);
      }
      from = null;
    });
    canvas.addEventListener("pointerleave", () => { this.place.querySelector(".tip").hidden = true; });
    canvas.addEventListener("dblclick", () => view.back());
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== canvas) return;
      event.preventDefault();
      const [x, y] = at(event), factor = event.deltaY > 0 ? 1.25 : 0.8;
      if (event.shiftKey) view.zoomMachines(factor, gantt.machine(y));
      else view.zoom(factor, gantt.time(x));
    }, { passive: false });
  }

  hover(x, y) {
    const tip = this.place.querySelector(".tip");
    const inside = x >= LEFT && x < LEFT + this.gantt.inner && y >= this.gantt.top && y < this.gantt.top + this.gantt.tall;
    const i = inside ? this.run.at(this.gantt.time(x), this.gantt.machine(y)) : -1;
    tip.hidden = i < 0;
    if (i < 0) return;
    tip.textContent = details(this.run, i);
    tip.style.left = `${Math.max(Math.min(x + 14, this.gantt.width - 310), 0)}px`;
    tip.style.top = `${y + 16}px`;
  }
}

// The processors at work, in %, the jobs that wait, and the pools, each try from its begin to its end.
function curvesOfJobs(run) {
  const { length } = run, begin = (i) => run.start(i), end = (i) => run.end[i], [work, queue] = CURVES(run);
  return [
    { ...work, length, begin, end, amount: (i) => (100 * run.procs[i]) / run.size },
    // A requeued job waits from the end of its previous try, the previous row.
    { ...queue, length, begin: (i) => (run.attempt[i] ? run.end[i - 1] : run.submit[i]), end: begin, amount: () => 1 },
    ...run.panels.filter(({ scale }) => scale).map(({ name, unit, limit, scale, take, each = 1 }) => {
      const takes = run[take] ?? run.procs;
      return { name, unit, limit, high: 0, length, begin, end, amount: (i) => (takes[i] * each) / scale };
    }),
  ];
}

// The same of all jobs, but pools, if the page holds a sample: means over equal times, in the units of data.py.
function curvesOfAll(run) {
  return [run.used, run.waiting].map((means, which) => {
    const step = (run.to - run.from) / means.length;
    return { ...CURVES(run)[which], length: means.length, begin: (k) => run.from + k * step, end: (k) => run.from + (k + 1) * step, amount: (k) => means[k] / 100 };
  });
}

const CURVES = ({ service }) => [
  { name: "utilisation, % of the processors", high: 100, limit: service },
  { name: "jobs waiting", high: 0, fill: "var(--advised)" },
];

const KEYS = {
  "+": "in", "=": "in", "-": "out", 0: "all", Backspace: "back", ArrowLeft: "left", ArrowRight: "right",
  ArrowUp: "up", ArrowDown: "down", "]": "taller", "[": "smaller", n: "next", p: "previous",
};

// A run's jobs are unpacked when its section is first opened; its picture needs none of them.
function explore(section) {
  if (section.open === false) return undefined;
  return (section.explored ??= unfold(section));
}

async function unfold(section) {
  const number = section.id.replace("run-", "");
  const data = document.querySelector(`script[data-run="${number}"]`);
  const place = document.getElementById(`explore-${number}`);
  const head = JSON.parse(data.textContent), chosen = { wait: 0 };
  data.remove();
  const picture = course(place.querySelector(".course"), head, new Clock(head.clock), chosen, (k) => {
    history.replaceState(null, "", `#job=${encodeURIComponent(head.waits[k].job)}${number > 0 ? `&run=${number}` : ""}`);
    openTarget();
  });
  const columns = await unpack(head.numbers);
  const ids = head.digits ? Array.from(columns.id, (id) => `${id}`.padStart(head.digits, "0"))
    : new TextDecoder().decode(await inflated(head.ids)).split("\n");
  place.explorer = new Explorer(place, new Run(head, columns, ids), Number(number), (k) => {
    chosen.wait = k;
    picture.redraw();
  });
  place.classList.add("ready");
}

// Open what the address names: a run, a job or the jobs of an outcome: #run-1, #job=17, #outcome=3, or #job=17&try=1&run=1.
async function openTarget() {
  const named = new URLSearchParams(location.hash.slice(1)), job = named.get("job"), outcome = named.get("outcome");
  let target = document.getElementById((job ?? outcome) === null ? location.hash.slice(1) : `run-${named.get("run") ?? 0}`);
  const section = target?.closest(".run");
  if (!section) return;
  section.open = true;
  await explore(section);
  const { explorer } = section.querySelector(".explorer");
  if (job !== null) target = explorer.pick(job, Number(named.get("try")));
  else if (outcome !== null) {
    target = explorer.form.elements.fate;
    target.value = outcome;
    explorer.refilter();
  }
  else return;
  target.focus({ preventScroll: true });
  target.scrollIntoView();
}

async function main() {
  const runs = [...document.querySelectorAll(".run")];
  for (const run of runs) run.addEventListener("toggle", () => explore(run));
  addEventListener("hashchange", openTarget);
  addEventListener("click", ({ target }) => { // an address that is already there does not change
    const link = target.closest?.("a[href^='#'][href*='=']");
    if (link && link.hash === location.hash) openTarget();
  });
  // Paper does not wait: a run that was not opened prints its picture and tables, without the machines.
  addEventListener("beforeprint", () => { for (const run of runs) explore(run); });
  await Promise.all([...runs.map(explore), openTarget()]);
}

pending.push(main());
