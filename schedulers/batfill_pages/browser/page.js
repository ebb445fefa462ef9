// The page: it hands the visitor's log to a worker, where batfill runs, and shows what it answers.
const $ = id => document.getElementById(id);
const pyodide = new URL($('form').dataset.pyodide, location.href).href;
const STOPPED = 'Stopped. Drop the log again, or another.';
let worker, calls, log, source, took, began;

// A new worker; `calls` are its questions, and nothing that an earlier one still says is heard.
async function begin() {
  const mine = calls = new Map();
  const script = await (await fetch('worker.js')).blob();  // a worker from a blob has this page's security policy
  if (mine !== calls) throw new Error(STOPPED);
  let trouble = 'Python could not be loaded';
  worker = new Worker(URL.createObjectURL(script.slice(0, script.size, 'text/javascript')), { type: 'module' });
  worker.onerror = event => fail(`${trouble} (${event.message || 'no connection'}); load the page again.`);
  worker.onmessage = ({ data }) => {
    if (data.told) return show(...data.told);
    const { resolve, reject } = mine.get(data.id);
    mine.delete(data.id);
    return data.failed ? reject(new Error(data.failed)) : resolve(data.answer);
  };
  worker.postMessage({ pyodide, here: new URL('.', location.href).href });
  await ask('begin', []);
  trouble = 'Python stopped';
}

function end() {
  if (worker) worker.onerror = worker.onmessage = null;  // one that is ended in the middle of its work reports errors
  worker?.terminate();
  for (const { reject } of calls.values()) reject(new Error(STOPPED));
}

const ask = (name, given, file) => new Promise((resolve, reject) => {
  calls.set(calls.size + performance.now(), { resolve, reject });
  worker.postMessage({ id: [...calls.keys()].at(-1), name, given, file });
});

// What is done of how much; when all is, the bar only moves, because the figures and the page take their time.
function show(label, done, total) {
  const all = total && done > total - 0.01, words = Math.floor(all ? total : done).toLocaleString('en');
  $('status').textContent = `${label}${done ? `: ${words}` : ''}${done && total ? ` of ${total.toLocaleString('en')}` : ''}${all ? ', now the figures' : ''}`;
  if (total && !all) Object.assign($('progress'), { max: total, value: done }); else $('progress').removeAttribute('value');
}

function busy(label) {
  if (label) show(label, 0);
  for (const part of document.querySelectorAll('#pages :is(button, select), #choices')) part.disabled = Boolean(label) || !(part.id ? source : log);
  $('progress').hidden = $('stop').hidden = $('since').hidden = !label;
  if (label) $('error').textContent = '';
}

function fail(text) {
  busy();
  $('status').textContent = 'Stopped.';
  $('error').textContent = text;
  if (text.includes('--unrequested')) {
    $('missing').hidden = false;
    $('unrequested').focus();
  }
  $('error').scrollIntoView({ block: 'nearest' });
}

// One piece of work at a time; an error is shown in the command line's words.
async function work(label, pieces) {
  busy(label);
  began = performance.now();
  try {
    await ready;
    await pieces();
    busy();
    $('status').textContent = `Done in ${((performance.now() - began) / 1000).toFixed(1)} s.`;
  } catch (error) { fail(error.message); }
}

const given = () => [$('procs').value, $('unrequested').value];
setInterval(() => { $('since').textContent = `${Math.round((performance.now() - began) / 1000)} s`; }, 1000);

function take(name, content) {
  $('missing').hidden = true;
  $('unrequested').value = 'refuse';
  $('procs').value = '';
  source = { name, content };
  return read();
}

const read = () => work(`Reading ${source.name}`, async () => {
  log = undefined;
  $('answers').hidden = $('page').hidden = $('keep').hidden = true;
  const found = await ask('take', [source.name, ...given()], await source.content());
  log = found.log;
  $('procs').placeholder = found.procs;
  $('log').textContent = found.summary;
  $('read').textContent = found.text;
  took = found.commands;
  await answer();
});

async function answer() {
  const { rows, wider } = await ask('orders', [log, ...given()]);
  $('wider').textContent = wider;
  $('answers').hidden = false;
  $('orders').tBodies[0].innerHTML = '';
  $('order').innerHTML = '';
  for (const { name, words, cells, pays } of rows) {
    const row = $('orders').tBodies[0].insertRow();
    row.innerHTML = '<th scope="row">';
    row.cells[0].textContent = name;
    cells.forEach((cell, i) => { Object.assign(row.insertCell(), { textContent: cell, className: pays && i === 1 ? 'pays' : '' }); });
    $('order').add(new Option(name, words));
  }
  await open('what-if');
}

async function open(page) {
  const { html, name, commands } = await ask('page', [page, log, ...given(), $('growth').value, $('order').value]);
  const url = URL.createObjectURL(new Blob([html], { type: 'text/html' }));
  URL.revokeObjectURL($('keep').href);
  Object.assign($('keep'), { href: url, download: name, hidden: false });
  Object.assign($('page'), { src: url, hidden: false, title: name });
  $('command').textContent = [...took, ...commands].join('\n');
}

const wide = $('wide');  // the keyboard reaches it if it scrolls
new ResizeObserver(() => { wide.tabIndex = wide.scrollWidth > wide.clientWidth ? 0 : -1; }).observe(wide);
const chosen = file => file && take(file.name, () => file.arrayBuffer());
document.ondragover = event => { event.preventDefault(); $('drop').classList.add('over'); };
document.ondragleave = () => $('drop').classList.remove('over');
document.ondrop = event => {
  event.preventDefault();
  $('drop').classList.remove('over');
  $('file').files = event.dataTransfer.files;  // so that its name stands beside the button
  chosen(event.dataTransfer.files[0]);
};
$('file').onchange = event => chosen(event.target.files[0]);
$('file').onclick = event => { event.target.value = ''; };  // so that the same file can be chosen again
$('form').onsubmit = event => { event.preventDefault(); if (log) work('Replaying', answer); else read(); };
for (const button of document.querySelectorAll('[data-log]')) {
  button.onclick = () => {
    $('file').value = '';
    take(button.dataset.log, async () => (await fetch(button.dataset.log)).arrayBuffer());
  };
}
for (const button of document.querySelectorAll('[data-page]')) button.onclick = () => work('Replaying', () => open(button.dataset.page));
$('stop').onclick = () => {
  end();
  ready = begin();
  ready.catch(() => {});  // whoever waits for it next shows the error
};
let ready = begin();
busy();
ready.then(() => { if (!source) $('status').textContent = 'Ready.'; }, error => { if (!source) fail(error.message); });
