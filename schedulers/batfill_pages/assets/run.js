// One run: a row per try of a job, as runs.py has them; times in seconds.
const COMPLETED = 0, FAILED = 1, CUT = 2, REQUEUED = 3, REFUSED = 4; // indices in STATES of runs.py
const CLASS_BOUNDS = [1, 10, 100];

class Run {
  constructor(head, columns, ids) {
    const { length } = columns.submit, n = length, { name, file, easy, limits, size, away, service, panels, tau, waits, states } = head;
    Object.assign(this, { name, file, easy, limits, size, away, service, panels, tau, waits, states, ids, length, ...columns });
    Object.assign(this, {
      clock: new Clock(head.clock), overdue: head.overdue ?? Infinity, tried: this.attempt.some((number) => number > 0), from: Infinity, to: -Infinity,
      end: new Float64Array(n), bsld: new Float64Array(n), slowdownClass: new Uint8Array(n), matching: new Uint8Array(n).fill(1),
    });
    for (let i = 0; i < n; i++) {
      const wait = this.wait[i], ran = this.runtime[i] + (this.known("kept", i) ?? 0);
      this.end[i] = this.submit[i] + wait + ran;
      this.bsld[i] = Math.max((wait + ran) / Math.max(ran, this.tau), 1);
      this.slowdownClass[i] = this.counts(i) ? CLASS_BOUNDS.filter((bound) => this.bsld[i] > bound).length : CLASS_BOUNDS.length + 1;
      if (this.state[i] === REFUSED) continue;
      this.from = Math.min(this.from, this.submit[i]);
      this.to = Math.max(this.to, this.end[i]);
    }
    if (!(this.from < this.to)) [this.from, this.to] = [0, 1];
    if (this.drawn) [this.from, this.to] = [head.from, head.to]; // a sample: the time is that of all jobs
  }

  // A try that goes on from a checkpoint did not wait while the job ran until there.
  start(i) { return this.submit[i] + this.wait[i] + (this.known("kept", i) ?? 0); }

  ran(i) { return this.state[i] !== REFUSED; }

  // Whether this try's job ran again.
  again(i) { return i + 1 < this.length && this.attempt[i + 1] > this.attempt[i] && this.ids[i + 1] === this.ids[i]; }

  // Whether the try counts: the last of its job, and it ran. Only such a try has a slowdown, its job's.
  counts(i) { return this.ran(i) && !this.again(i); }

  // Whether this try was submitted after another and started before it.
  overtakes(i, other) { return this.submit[i] > this.submit[other] && this.start(i) < this.start(other); }

  // The number of tries of this try's job; their rows are adjacent.
  tries(i) {
    let last = i;
    while (this.again(last)) last++;
    return this.attempt[last] + 1;
  }

  // The row of a job's try of this number, or its last, by its id, in which leading zeros do not matter; -1 if none.
  named(id, number) {
    const bare = (words) => words.replace(/^0+(?=\d)/, ""), wanted = bare(id);
    let i = this.length - 1;
    while (i >= 0 && !(bare(this.ids[i]) === wanted && (!number || this.attempt[i] + 1 === number))) i--;
    return i;
  }

  // The processors in service that none of the first rows uses from each event on, in order of time.
  idle(rows) {
    const changes = [];
    for (let i = 0; i < rows; i++)
      if (this.ran(i)) changes.push([this.start(i), -this.procs[i]], [this.end[i], this.procs[i]]);
    for (const [from, to, procs] of this.away ?? []) changes.push([from, -procs], [to ?? Infinity, procs]);
    let free = this.size;
    return changes.sort((a, b) => a[0] - b[0]).map(([at, change]) => [at, (free += change)]);
  }

  // How long in this span so many processors were idle; or, without regard to jobs, in service.
  room(from, to, procs, jobs = true) {
    const levels = jobs ? (this.levels ??= this.idle(this.length)) : this.idle(0);
    let sum = 0, at = -Infinity, free = this.size;
    for (const [next, then] of [...levels, [Infinity, 0]]) {
      const inside = Math.min(next, to) - Math.max(at, from);
      if (inside > 0 && free >= procs) sum += inside;
      if (next >= to) return sum;
      [at, free] = [next, then];
    }
    return sum;
  }

  // A value from a column of scheduler data, or undefined if unknown.
  known(column, i) { return this[column] && this[column][i] >= 0 ? this[column][i] : undefined; }

  // The log's request in seconds; undefined without one.
  request(i) {
    const seconds = this.known("asked", i) ?? this.walltime[i];
    return seconds > 0 ? seconds : undefined;
  }

  name_of(i) { return this.attempt[i] ? `${this.ids[i]}#${this.attempt[i]}` : this.ids[i]; }

  machines(i, most = 6) {
    const words = [];
    for (let k = this.offset[i]; k < this.offset[i + 1]; k++)
      words.push(this.span[k] ? `${this.first[k]}-${this.first[k] + this.span[k]}` : `${this.first[k]}`);
    return words.length > most ? `${words.slice(0, most).join(" ")} and ${words.length - most} more ranges` : words.join(" ");
  }

  // The try on this machine at this time, or -1.
  at(time, machine) {
    for (let i = 0; i < this.length; i++) {
      if (!this.ran(i) || time < this.start(i) || time >= this.end[i]) continue;
      for (let k = this.offset[i]; k < this.offset[i + 1]; k++)
        if (machine >= this.first[k] && machine <= this.first[k] + this.span[k]) return i;
    }
    return -1;
  }
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (x) => String(x).padStart(2, "0");

// The log's clock: the date of its second 0 and its zone; without one, days count from second 0.
class Clock {
  constructor(head) {
    this.known = head !== null;
    this.unix = head ? head.unix_start_s : 0;
    const zone = head ? head.zone : "UTC";
    const fixed = /^UTC(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(zone);
    if (fixed) this.fixed = (fixed[1] === "-" ? -1 : 1) * ((fixed[2] || 0) * 3600 + (fixed[3] || 0) * 60 + Number(fixed[4] || 0));
    else this.parts = new Intl.DateTimeFormat("en-GB", { timeZone: zone, year: "numeric", month: "numeric", day: "numeric",
      hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" });
  }

  // The zone's offset from UTC in seconds, at a second of the log.
  ahead(second) {
    if (!this.parts) return this.fixed;
    const at = Math.floor(this.unix + second);
    const of = Object.fromEntries(this.parts.formatToParts(at * 1000).map((part) => [part.type, Number(part.value)]));
    return Date.UTC(of.year, of.month - 1, of.day, of.hour, of.minute, of.second) / 1000 - at;
  }

  // The local date as a date whose UTC fields hold it, and back.
  local(second) { return new Date((this.unix + second + this.ahead(second)) * 1000); }

  second(local) {
    const guess = local / 1000 - this.unix;
    return guess - this.ahead(guess - this.ahead(guess));
  }

  day(date) {
    return this.known ? `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}` : `day ${Math.floor(date / 864e5)}`;
  }

  time(date) { return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`; }

  text(second) {
    const date = this.local(Math.floor(second));
    return `${this.day(date)} ${this.time(date)}`;
  }

  // The second at which a local day begins, or one that many days later: "1996-10-13", or a number of days without a clock.
  day_begins(words, later = 0) {
    if (!this.known) return (Number(words) + later) * 86400;
    const date = new Date(`${words}T00:00:00Z`);
    return this.second(date.setUTCDate(date.getUTCDate() + later));
  }

  // In ISO 8601, with the offset from UTC; "" without a clock.
  iso(second) {
    if (!this.known) return "";
    const at = Math.floor(second), ahead = this.ahead(at), minutes = Math.round(Math.abs(ahead) / 60);
    return `${this.local(at).toISOString().slice(0, 19)}${ahead < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
  }

  // Times at round local dates, at least `fewest`, as [second, words, words below].
  ticks(from, to, fewest) {
    const first = this.local(from);
    if (this.known)
      for (const months of MONTH_STEPS) {
        const begin = Math.floor((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months);
        const month = (k) => (begin + k) * months;
        const dates = this.between(from, to, (k) => Date.UTC(Math.floor(month(k) / 12), month(k) % 12, 1));
        if (dates.length >= fewest)
          return worded(dates, (d) => (months < 12 ? MONTHS[d.getUTCMonth()] : `${d.getUTCFullYear()}`),
            (d) => (months < 12 ? `${d.getUTCFullYear()}` : ""));
      }
    const steps = this.known ? SECOND_STEPS.filter((step) => step <= 1209600) : SECOND_STEPS;
    let dates = [], step;
    for (step of steps) {
      const begun = Math.floor(first / 1000 / step) * step;
      dates = this.between(from, to, (k) => (begun + k * step) * 1000);
      if (dates.length >= fewest) break;
    }
    if (step >= 86400 && !this.known) return worded(dates, (d) => `day ${number(d / 864e5, 0)}`, () => "");
    if (step >= 86400) return worded(dates, (d) => `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]}`, (d) => `${d.getUTCFullYear()}`);
    return worded(dates, (d) => (step < 60 ? this.time(d) : this.time(d).slice(0, 5)), (d) => this.day(d));
  }

  // Local dates, produced in order by `of`, as [second, date].
  between(from, to, of) {
    const found = [];
    for (let k = 0; ; k++) {
      const local = of(k), at = this.second(local);
      if (at > to) return found;
      if (at >= from) found.push([at, new Date(local)]);
    }
  }
}

const MONTH_STEPS = [120, 60, 24, 12, 6, 3, 2, 1];
const SECOND_STEPS = [31536000 * 10, 31536000 * 5, 31536000, 200 * 86400, 100 * 86400, 50 * 86400, 20 * 86400, 1209600, 604800, 345600,
  172800, 86400, 43200, 21600, 10800, 7200, 3600, 1800, 900, 600, 300, 120, 60, 30, 15, 10, 5, 2, 1];

// The second line is given only where it changes.
function worded(dates, words, below) {
  let said = "";
  return dates.map(([at, date]) => {
    const second = below(date), shown = second === said ? "" : second;
    said = second;
    return [at, words(date), shown];
  });
}

function number(value, digits = 2) {
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}
