// Which jobs are looked at, and what is true of them.
const SHOWN = 15;

function applyFilter(run, form, colours) {
  const value = (name) => form.elements[name].value.trim();
  const limit = (name, otherwise) => (value(name) === "" ? otherwise : Number(value(name)));
  const id = value("id"), fate = value("fate"), slowdown = value("slowdown");
  const [narrow, wide] = [limit("narrowest", 1), limit("widest", Infinity)];
  const waited = limit("waited", 0) * 3600;
  colours.overdueAfter = limit("overdue", Infinity) * 3600;
  run.matched = 0;
  for (let i = 0; i < run.length; i++) {
    const fits = run.procs[i] >= narrow && run.procs[i] <= wide
      && (waited === 0 || run.wait[i] >= waited)
      && (slowdown === "" || (run.ran(i) && run.slowdownClass[i] === Number(slowdown)))
      && (id === "" || run.ids[i].includes(id))
      && hasFate(run, i, fate, colours.overdueAfter);
    run.matching[i] = fits ? 1 : 0;
    run.matched += run.matching[i];
  }
}

function hasFate(run, i, fate, overdueAfter) {
  if (fate === "") return true;
  if (fate === "overtook") return run.overtook[i] === 1;
  if (fate === "overdue") return run.wait[i] > overdueAfter;
  return run.state[i] === Number(fate);
}

function summaryOfMatching(run) {
  let [count, wait, bsld] = [0, 0, 0];
  for (let i = 0; i < run.length; i++) {
    if (!run.matching[i] || !run.counts(i)) continue;
    count++;
    wait += run.wait[i];
    bsld += run.bsld[i];
  }
  const tries = run.matched === run.length ? "All jobs" : `${number(run.matched)} of ${number(run.length)} rows match`;
  return count ? `${tries}: ${number(count)} ${count === 1 ? "job" : "jobs"} ran, mean wait ${duration(wait / count)}, mean bounded slowdown ${number(bsld / count)}.`
    : `${tries}; none of them ran to its end.`;
}

// The rows that match with the largest bounded slowdown, the largest first.
function worst(run) {
  const rows = [];
  let least = -1;
  for (let i = 0; i < run.length; i++) {
    const slowdown = run.ran(i) ? run.bsld[i] : 0;
    if (!run.matching[i] || (rows.length === SHOWN && slowdown <= least)) continue;
    rows.push({ i, slowdown });
    rows.sort((a, b) => b.slowdown - a.slowdown);
    if (rows.length > SHOWN) rows.pop();
    least = rows[rows.length - 1].slowdown;
  }
  return rows.map((row) => row.i);
}

function details(run, i) {
  const asked = run.walltime[i] < 0 ? "no limit" : `asked for ${duration(run.walltime[i])}`;
  const job = `Job ${run.name_of(i)}: ${number(run.procs[i])} processors, ${asked}, submitted ${clock(run.submit[i])}`;
  if (!run.ran(i)) return `${job}, rejected.`;
  const marks = [run.states[run.state[i]], ...(run.overtook[i] ? ["overtook an earlier job"] : [])];
  return `${job}, waited ${duration(run.wait[i])}, ran ${duration(run.runtime[i])} on machines ${run.machines(i)}, `
    + `bounded slowdown ${number(run.bsld[i])}; ${marks.join(", ")}.`;
}
