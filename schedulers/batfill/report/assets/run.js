// One run: a row per try of a job, as runs.py has them; times in seconds.
const COMPLETED = 0, FAILED = 1, CUT = 2, REQUEUED = 3, REFUSED = 4; // places in STATES of runs.py
const CLASS_BOUNDS = [1, 10, 100];

class Run {
  constructor(head, columns, ids) {
    Object.assign(this, { name: head.name, size: head.size, tau: head.tau, states: head.states, ids, ...columns });
    this.length = this.submit.length;
    const n = this.length;
    this.end = new Float64Array(n);
    this.bsld = new Float64Array(n);
    this.slowdownClass = new Uint8Array(n);
    this.matching = new Uint8Array(n).fill(1);
    this.from = Infinity;
    this.to = -Infinity;
    for (let i = 0; i < n; i++) {
      const wait = this.wait[i], ran = this.runtime[i];
      this.end[i] = this.submit[i] + wait + ran;
      this.bsld[i] = Math.max((wait + ran) / Math.max(ran, this.tau), 1);
      this.slowdownClass[i] = CLASS_BOUNDS.filter((bound) => this.bsld[i] > bound).length;
      if (this.state[i] === REFUSED) continue;
      this.from = Math.min(this.from, this.submit[i]);
      this.to = Math.max(this.to, this.end[i]);
    }
    if (!(this.from < this.to)) [this.from, this.to] = [0, 1];
  }

  start(i) { return this.submit[i] + this.wait[i]; }

  ran(i) { return this.state[i] !== REFUSED; }

  // Whether the try is the one that counts: the last of its job, which ran.
  counts(i) { return this.ran(i) && this.state[i] !== REQUEUED; }

  name_of(i) { return this.attempt[i] ? `${this.ids[i]}#${this.attempt[i]}` : this.ids[i]; }

  machines(i) {
    const words = [];
    for (let k = this.offset[i]; k < this.offset[i + 1]; k++)
      words.push(this.span[k] ? `${this.first[k]}-${this.first[k] + this.span[k]}` : `${this.first[k]}`);
    return words.length > 6 ? `${words.slice(0, 6).join(" ")} and ${words.length - 6} more ranges` : words.join(" ");
  }

  // The try that has this machine at this time, or -1.
  at(time, machine) {
    for (let i = 0; i < this.length; i++) {
      if (!this.ran(i) || time < this.start(i) || time >= this.end[i]) continue;
      for (let k = this.offset[i]; k < this.offset[i + 1]; k++)
        if (machine >= this.first[k] && machine <= this.first[k] + this.span[k]) return i;
    }
    return -1;
  }
}

function duration(seconds) {
  const s = Math.round(Math.abs(seconds));
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  if (m) return `${m} min ${s % 60} s`;
  return `${Math.abs(seconds) < 10 ? Math.round(seconds * 100) / 100 : s} s`;
}

function clock(seconds) {
  const s = Math.floor(seconds);
  const two = (x) => String(x).padStart(2, "0");
  return `day ${Math.floor(s / 86400)} ${two(Math.floor(s / 3600) % 24)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

function number(value, digits = 2) {
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}
