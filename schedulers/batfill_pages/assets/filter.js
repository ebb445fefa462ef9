// The filter, and figures of the matching jobs.
const SHOWN = 15; // rows of the table at once

function applyFilter(run, form, colours) {
  const value = (name) => form.elements[name].value.trim();
  const limit = (name, otherwise) => (value(name) === "" ? otherwise : Number(value(name)));
  const id = value("id"), fate = value("fate"), slowdown = value("slowdown");
  const [narrow, wide] = [limit("narrowest", 1), limit("widest", Infinity)];
  const waited = limit("waited", 0) * 3600, user = form.elements.user ? value("user") : "";
  const since = value("since") === "" ? -Infinity : run.clock.day_begins(value("since"));
  const until = value("until") === "" ? Infinity : run.clock.day_begins(value("until"), 1);
  colours.overdueAfter = limit("overdue", Infinity) * 3600;
  const ofFate = {
    "": () => true,
    backfilled: (i) => run.known("backfilled", i) === 1,
    overdue: (i) => run.wait[i] > colours.overdueAfter,
  }[fate] ?? ((i) => run.state[i] === Number(fate));
  run.matched = 0;
  for (let i = 0; i < run.length; i++) {
    const fits = run.procs[i] >= narrow && run.procs[i] <= wide
      && (waited === 0 || run.wait[i] >= waited) && (id === "" || run.ids[i].includes(id))
      && (slowdown === "" || (run.counts(i) && run.slowdownClass[i] === Number(slowdown)))
      && (user === "" || run.user[i] === Number(user))
      && run.submit[i] >= since && run.submit[i] < until && ofFate(i);
    run.matching[i] = fits ? 1 : 0;
    run.matched += run.matching[i];
  }
}

function summaryOfMatching(run) {
  let [count, drawn, wait, bsld, longest, killed] = [0, 0, 0, 0, 0, 0];
  for (let i = 0; i < run.length; i++) {
    if (run.matching[i] && run.again(i)) killed++;
    if (!run.matching[i] || !run.counts(i)) continue;
    count++;
    longest = Math.max(longest, run.wait[i]);
    if (run.drawn && !run.drawn[i]) continue; // in the sample for its long wait, it would raise the means
    drawn++;
    wait += run.wait[i];
    bsld += run.bsld[i];
  }
  const again = killed ? ` ${things(killed, "try was", "tries were")} killed; ${killed === 1 ? "its" : "each"} job ran again later.` : "";
  const all = run.matched === run.length, part = `${number(run.matched)} of ${number(run.length)} rows match`;
  const rows = run.drawn ? `Of the sample, ${all ? "all rows match" : part}` : all ? "All jobs" : part;
  if (!count) return `${rows}${killed || run.drawn ? "" : "; none of them ran"}.${again}`;
  const ran = `${rows}: ${things(count, "job", "jobs")} ran`, means = [duration(wait / drawn), slowdown(bsld / drawn)];
  if (!run.drawn) return `${ran}, mean wait ${means[0]} (longest ${duration(longest)}), mean slowdown ${means[1]}.${again}`;
  const random = drawn ? `the ${number(drawn)} drawn at random have a mean wait of ${means[0]} and a mean slowdown of ${means[1]}`
    : "none of them was drawn at random";
  return `${ran} (longest wait ${duration(longest)}); ${random}.${again}`;
}

const things = (count, one, several) => `${number(count)} ${count === 1 ? one : several}`;

// The columns of a try: title, name in the CSV, value in the CSV (undefined: unknown), text in the table if different,
// whether only tries that ran have it, and the column of the run that it requires.
const JOB_COLUMNS = [
  { title: "job", name: "job", of: (run, i) => run.ids[i] },
  { title: "user", needs: "user", name: "user", of: (run, i) => run.known("user", i) },
  { title: "submitted", name: "submit_s", of: (run, i) => run.submit[i], shown: (run, i) => run.clock.text(run.submit[i]) },
  { title: "ran", name: "runtime_s", ran: true, of: (run, i) => run.runtime[i], shown: (run, i) => duration(run.runtime[i]) },
  { title: "requested", name: "requested_s", of: (run, i) => run.request(i), shown: (run, i) => asked(run, i)[0] },
  { title: "limit", needs: "asked", name: "limit_s", of: (run, i) => (run.walltime[i] < 0 ? undefined : run.walltime[i]), shown: (run, i) => duration(run.walltime[i]) },
  { title: "processors", name: "processors", of: (run, i) => run.procs[i], shown: (run, i) => number(run.procs[i]) },
  { title: "start", name: "start_s", ran: true, of: (run, i) => run.start(i), shown: (run, i) => run.clock.text(run.start(i)) },
  { title: "end", name: "end_s", ran: true, of: (run, i) => run.end[i], shown: (run, i) => run.clock.text(run.end[i]) },
  { title: "waited", name: "wait_s", ran: true, of: (run, i) => run.wait[i], shown: (run, i) => duration(run.wait[i]) },
  { title: "slowdown", name: "bsld", of: (run, i) => (run.counts(i) ? run.bsld[i] : undefined), shown: (run, i) => slowdown(run.bsld[i]) },
  { title: "backfilled", needs: "backfilled", name: "backfilled", of: (run, i) => run.known("backfilled", i), shown: (run, i) => ["no", "yes"][run.known("backfilled", i)] },
  { title: "try", name: "try", of: (run, i) => run.attempt[i] + 1, shown: (run, i) => `${run.attempt[i] + 1} of ${run.tries(i)}` },
  { title: "treated as", needs: "small", name: "class", of: (run, i) => ["large", "small"][run.known("small", i)] },
  { title: "probability of small", needs: "probability", name: "probability", of: (run, i) => (run.known("probability", i) === undefined ? undefined : run.probability[i] / 1e4) },
  { title: "tries end after", needs: "divider", name: "divider_s", of: (run, i) => run.known("divider", i), shown: (run, i) => duration(run.divider[i]) },
  { title: "outcome", name: "fate", of: (run, i) => run.states[run.state[i]] },
];

function valueOf(column, run, i) { return column.ran && !run.ran(i) ? undefined : column.of(run, i); }

function shownOf(column, run, i) {
  const value = valueOf(column, run, i);
  if (column.shown && (value !== undefined || column.name === "requested_s")) return column.shown(run, i) ?? "";
  return value === undefined ? "" : String(value);
}

// The matching rows sorted by a column: bounded slowdown, waits and other amounts descending, others ascending;
// unknown values last, ties in order of submission.
const FROM_FIRST = new Set(["job", "user", "submit_s", "start_s", "end_s", "class", "fate"]);

function ordered(run, name) {
  const column = JOB_COLUMNS.find((one) => one.name === name);
  const rows = new Uint32Array(run.matched);
  for (let i = 0, k = 0; i < run.length; i++) if (run.matching[i]) rows[k++] = i;
  if (name === "submit_s") return rows;
  const sign = FROM_FIRST.has(name) ? 1 : -1, words = ["job", "class", "fate"].includes(name), keys = new Array(run.length);
  for (const i of rows) keys[i] = words ? valueOf(column, run, i) ?? "~" : sign * (valueOf(column, run, i) ?? sign * Infinity);
  return rows.sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b));
}

// Every matching row as CSV, with dates if the log has a clock.
function csvOf(run, rows) {
  const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const lines = [[...JOB_COLUMNS.map((column) => column.name), "tries", "machines", ...(run.clock.known ? ["submitted", "started", "ended"] : [])].join(",")];
  for (const i of rows) {
    const cells = JOB_COLUMNS.map((column) => valueOf(column, run, i) ?? "");
    cells.push(run.tries(i), run.ran(i) ? run.machines(i, Infinity) : "");
    if (run.clock.known) cells.push(run.clock.iso(run.submit[i]), ...(run.ran(i) ? [run.clock.iso(run.start(i)), run.clock.iso(run.end[i])] : ["", ""]));
    lines.push(cells.map((cell) => quoted(String(cell))).join(","));
  }
  return `${lines.join("\n")}\n`;
}

// The time that the log says a job asked for, and the limit that the scheduler read if it is another: run_page.asked.
function asked(run, i) {
  const limit = run.walltime[i] < 0 ? "no limit" : duration(run.walltime[i]), given = run.known("asked", i);
  if (given === undefined) return [limit, ""];
  if (!given) return ["no time", ` (the log has no request; ${limit} stood in for it)`];
  return [duration(given), given < run.walltime[i] ? ` (raised to ${limit})` : ` (the limit was ${limit})`];
}

// The jobs that started before one, those submitted later and those that were waiting already, what the later ones used,
// how many of them started when it was overdue, and how long enough processors were idle.
function before(run, i) {
  const found = { laters: [], late: 0, used: 0, aheads: [], room: run.room(run.submit[i], run.start(i), run.procs[i]) };
  for (let k = 0; k < run.length; k++) {
    if (!run.counts(k) || run.start(k) >= run.start(i)) continue;
    if (run.submit[k] > run.submit[i]) {
      found.laters.push(run.name_of(k));
      if (run.start(k) - run.submit[i] > run.overdue) found.late++;
      found.used += run.procs[k] * run.runtime[k];
    } else if (run.start(k) > run.submit[i]) found.aheads.push(run.name_of(k));
  }
  return { ...found, later: found.laters.length, ahead: found.aheads.length };
}

function details(run, i) {
  const [said, limit] = asked(run, i), request = `${said === "no limit" ? "" : "requested "}${said}${limit}`;
  const job = `Job ${run.name_of(i)}: ${number(run.procs[i])} processors, ${request}, submitted ${run.clock.text(run.submit[i])}`;
  if (!run.ran(i)) return `${job}, rejected.`;
  const marks = [run.states[run.state[i]], ...(run.known("backfilled", i) ? ["started by backfilling"] : [])];
  const user = run.known("user", i), small = run.known("small", i), probability = run.known("probability", i);
  if (run.known("urgent", i)) marks.push("urgent");
  if (user !== undefined) marks.push(`user ${user}`);
  if (small !== undefined) marks.push(`treated as ${["large", "small"][small]}${probability === undefined ? "" : ` (probability ${probability / 1e4})`}`);
  const far = run.again(i) ? `try ${run.attempt[i] + 1} of ${run.tries(i)}, and ran again from ${run.clock.text(run.start(i + 1))}`
    : `slowdown ${slowdown(run.bsld[i])}`;
  return `${job}, waited ${duration(run.wait[i])}, ran ${duration(run.runtime[i])} on machines ${run.machines(i)}, ${far}; ${marks.join(", ")}.`;
}

const named = (jobs = []) => (jobs.length && jobs.length < 4 ? ` (${jobs.join(", ")})` : ""); // a few
const STOPPED = [" at its divider", " by a failure", " for an urgent job"]; // as in results.py

// Why a job waited; of the longest waits the place in the order is in the page, and the number of all later jobs.
function reason(run, i) {
  if (!run.ran(i)) return "It was rejected and did not run.";
  const words = [`It asked for ${things(run.procs[i], "processor", "processors")} and ${asked(run, i).join("")}`];
  const told = run.counts(i) && run.waits.find(({ job }) => job === run.ids[i]);
  const place = told?.place, overdue = run.wait[i] > run.overdue;
  if (overdue || place) words.push(!overdue ? place : `${place ? `${place} until it is overdue: after` : "After"} ${duration(run.overdue)} (the threshold) only older overdue jobs were before it in the queue`);
  const why = STOPPED[run.known("stopped", i)] ?? "", done = run.known("kept", i) ?? 0;
  if (done) words.push(`This try went on from a checkpoint, with ${duration(done)} done`);
  if (run.again(i)) {
    const kept = (run.known("kept", i + 1) ?? 0) - done, lost = kept ? `of what it computed ${duration(kept)} are kept` : "what it computed is lost";
    words.push(`This try was killed after ${duration(run.runtime[i])}${why}: ${lost}. The job ran again from ${run.clock.text(run.start(i + 1))}`);
  }
  else if ([CUT, REQUEUED].includes(run.state[i])) words.push(`It ${run.state[i] === CUT ? "was ended at its walltime," : "was killed"} after ${duration(run.runtime[i])}`);
  if (!(run.wait[i] > 0)) words.push("It started at once");
  else if (run.drawn && !told) words.push("This page holds a sample of the jobs, so it does not say which of all started before it");
  else {
    const { later, late, used, ahead, room, laters, aheads } = run.drawn ? told : before(run, i);
    const lates = late === later ? (later > 1 ? "all " : "") : `${late ? number(late) : "none"} of them `;
    const then = overdue && !run.attempt[i] ? `, ${lates}${run.easy ? "by backfilling " : ""}after that` : ""; // a later try ran meanwhile
    words.push(later ? `${things(later, "job that was", "jobs that were")} submitted later${named(laters)} started before it${then}${used === undefined ? "" : `; ${later > 1 ? "together they" : "it"} used what the whole machine does in ${duration(used / run.size)}`}`
      : "No job that was submitted later started before it");
    if (ahead) words.push(`${things(ahead, "job that was", "jobs that were")} already waiting when it came${named(aheads)} started before it as well`);
    const out = done ? 0 : run.start(i) - run.submit[i] - run.room(run.submit[i], run.start(i), run.procs[i], false);
    if (out >= 1) words.push(`For ${duration(out)} of its wait too few processors were in service`);
    if (room >= 1 && !done)
      words.push(`For ${out >= 1 ? "another " : ""}${duration(room)} of its wait enough processors were idle${run.easy && run.tries(i) === 1 ? ": it was not let in, because it would have delayed the job at the head of the queue" : run.limits ? `; ${run.limits} may have kept it out` : run.away ? "; a time out of service to come, or another job's reservation, may have kept it out" : ""}`);
  }
  if (run.attempt[i]) words.push(`${run.attempt[i] > 1 ? `${run.attempt[i]} earlier tries were` : "An earlier try was"} killed${done ? "" : ", and what it computed there is lost"}; its wait counts to the start of ${run.again(i) ? "this" : "the last"} try`);
  return `${words.join(". ")}.`;
}
