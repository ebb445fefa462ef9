// batfill in a worker: Python loads once, then each message is a call of a function of inside.py.
let call;

async function begin({ pyodide, here }) {
  const parts = Promise.all(['batfill.zip', 'inside.py'].map(async name => (await fetch(here + name)).arrayBuffer()));
  const { loadPyodide } = await import(pyodide + 'pyodide.mjs');
  const python = await loadPyodide({ indexURL: pyodide });
  await python.loadPackage(['numpy', 'orjson'], { messageCallback: () => {} });  // checks the lock file's hashes
  const [zip, inside] = await parts;
  python.unpackArchive(zip, 'zip', { extractDir: '/lib/python3.13/site-packages' });
  python.FS.mkdirTree('/home/logs');
  python.FS.writeFile('/lib/python3.13/site-packages/inside.py', new Uint8Array(inside));
  const module = python.pyimport('inside');
  if (!pyodide.startsWith(here)) module.version.DOCUMENTATION = new URL('..', here).href;  // not in a copy of the page alone
  let told = 0;
  module.progress.told = (label, done, total) => {
    if (performance.now() - told < 50 && done && !(done > total - 0.01)) return;  // the last step always shows
    told = performance.now();
    postMessage({ told: [label, done, total] });
  };
  return (name, given, file) => {
    if (file) python.FS.writeFile('/home/logs/' + given[0], new Uint8Array(file));
    return module.call(name, ...given).toJs({ dict_converter: Object.fromEntries });
  };
}

onmessage = async ({ data }) => {
  if (data.pyodide) { call = begin(data); return; }
  try {
    const answer = data.name === 'begin' ? await call && true : (await call)(data.name, data.given, data.file);
    postMessage({ id: data.id, answer, failed: answer.failed });
  } catch (error) { postMessage({ id: data.id, failed: String(error) }); }
};
