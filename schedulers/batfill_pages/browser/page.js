// The page: it hands the visitor's log to a worker, where batfill runs, and shows what it answers.
const $ = id => document.getElementById(id);
const pyodide = new URL($('form').dataset.pyodide, location.href).href;
let worker, calls, log, source, took;

async function begin() {
  calls = new Map();
  const script = await (await fetch('worker.js')).blob();  // a worker from a blob has this page's security policy
  worker = new Worker(URL.createObjectURL(script.slice(0, script.size, 'text/javascript')), { type: 'module' });
  worker.onerror = event => fail(`Python could not be loaded (${event.message || 'no connection'}); load the page again.`);
  worker.onmessage = ({ data }) => {
    if (data.told) return show(...data.told);
    const { resolve, reject } = calls.get(data.id);
    calls.delete(data.id);
    return data.failed ? reject(new Error(data.failed)) : resolve(data.answer);
  };
  worker.postMessage({ pyodide, here: new URL('.', location.href).href });
}

const ask = (name, given, file) => new Promise((resolve, reject) => {
  calls.set(calls.size + performance.now(), { resolve, reject });
  worker.postMessage({ id: [...calls.keys()].at(-1), name, given, file });
});

function show(label, done, total) {
  $('status').textContent = done ? `${label}: ${done.toLocaleString('en')}${total ? ` of ${total.toLocaleString('en')}` : ''}` : label;
  if (total) Object.assign($('progress'), { max: total, value: done }); else $('progress').removeAttribute('value');
}

function busy(label) {
  if (label) show(label, 0);
  for (const part of document.querySelectorAll('#pages :is(button, select), #choices')) part.disabled = Boolean(label) || !log;
  $('progress').hidden = $('stop').hidden = !label;
  if (label) $('error').textContent = '';
}

function fail(text) {
  busy();
  $('status').textContent = 'Stopped.';
  $('error').textContent = text;
}

// One piece of work at a time; an error is shown in the command line's words.
async function work(label, pieces) {
  busy(label);
  const began = performance.now();
  try {
    await ready;
    await pieces();
    busy();
    $('status').textContent = `Done in ${((performance.now() - began) / 1000).toFixed(1)} s.`;
  } catch (error) { fail(error.message); }
}

const take = (name, content) => work(`Reading ${name}`, async () => {
  source = { name, content };
  log = undefined;
  $('answers').hidden = $('page').hidden = $('keep').hidden = true;
  const read = await ask('take', [name], await content());
  log = read.log;
  $('procs').value = read.procs;
  $('log').textContent = read.summary;
  $('read').textContent = read.text;
  $('answers').hidden = false;
  took = read.commands;
  await answer();
});

async function answer() {
  const { rows } = await ask('orders', [log, $('procs').value]);
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
  const { html, name, commands } = await ask('page', [page, log, $('procs').value, $('growth').value, $('order').value]);
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
document.ondrop = event => { event.preventDefault(); $('drop').classList.remove('over'); chosen(event.dataTransfer.files[0]); };
$('file').onchange = event => chosen(event.target.files[0]);
$('file').onclick = event => { event.target.value = ''; };  // so that the same file can be chosen again
$('form').onsubmit = event => { event.preventDefault(); work('Replaying', answer); };
for (const button of document.querySelectorAll('[data-log]')) {
  button.onclick = () => take(button.dataset.log, async () => (await fetch(button.dataset.log)).arrayBuffer());
}
for (const button of document.querySelectorAll('[data-page]')) button.onclick = () => work('Replaying', () => open(button.dataset.page));
$('stop').onclick = () => {
  worker.terminate();
  for (const { reject } of calls.values()) reject(new Error('Stopped. Drop the log again, or another.'));
  ready = start();
};
const start = () => begin().then(() => ask('begin', []));
let ready = start().catch(error => fail(error.message));
busy();
ready.then(() => { if (!source) { $('status').textContent = 'Ready.'; } });
