// The meaning of jobs' colours. PALETTE, GREY and FAILED_INK come from palette.py.

class Colours {
  constructor(run) {
    this.run = run;
    this.overdueAfter = Infinity;
    this.wait = -1;
    this.choose("slowdown");
  }

  // Each colouring: its legend as [colour, words], and the index in it of a job.
  choose(what) {
    const { run } = this;
    const ways = {
      rush: {
        legend: [["--advised", `job ${run.ids[this.wait]}`], ["--pays", "submitted later, started before it"],
          ["--mark", "other jobs"]],
        place: (i) => (run.ids[i] === run.ids[this.wait] ? 0 : run.overtakes(i, this.wait) ? 1 : 2),
      },
      slowdown: {
        legend: [...["slowdown 1", "up to 10", "up to 100", "above 100"].map((words, k) => [PALETTE[k], words]),
          ...(run.tried ? [["--mark", "killed, ran again later"]] : [])],
        place: (i) => run.slowdownClass[i],
      },
      fate: {
        legend: [[GREY, run.backfilled ? "in the queue's order" : "completed"], [PALETTE[0], "started by backfilling"], [PALETTE[2], "overdue"],
          [PALETTE[3], "killed"], [FAILED_INK, "failed"]],
        place: (i) => (run.state[i] === CUT || run.state[i] === REQUEUED ? 3 : run.state[i] === FAILED ? 4
          : run.wait[i] > this.overdueAfter ? 2 : run.known("backfilled", i) ?? 0),
      },
    };
    Object.assign(this, ways[what], { what });
  }

  // Colours as pixels of an image.
  inks() {
    const [idle, other, wash] = ["--idle", "--other", "--wash"].map((name) => pixel(hex(name)));
    const inks = this.legend.map(([colour]) => pixel(hex(colour)));
    return { idle, other, wash, hatching: inks.find((_, k) => this.hatches(k)), of: (i) => inks[this.place(i)] };
  }

  // Whether jobs of this place in the legend are hatched.
  hatches(place) { return this.what === "rush" && place === 1; }

  // A text colour readable on a job's colour.
  text(i) {
    const [r, g, b] = parts(hex(this.legend[this.place(i)][0]));
    return r * 0.299 + g * 0.587 + b * 0.114 > 140 ? "#111" : "#fff";
  }

  // The number of matching tries of each colour.
  counts() {
    const counts = this.legend.map(() => 0);
    for (let i = 0; i < this.run.length; i++)
      if (this.run.matching[i] && this.run.ran(i)) counts[this.place(i)]++;
    return counts;
  }
}

// A colour, or the value of a property of the page's style.
function hex(colour) {
  return colour.startsWith("--") ? getComputedStyle(document.documentElement).getPropertyValue(colour).trim() : colour;
}

function parts(colour) { return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)); }

function pixel(colour) {
  const [r, g, b] = parts(colour);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
