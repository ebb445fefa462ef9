// node in_node.mjs PAGE LOGS LINES: runs command lines as the page of scripts/browser.py does, without a browser.
// LINES is a file with a command line a line; prints one JSON document for each.
import fs from 'fs';
import path from 'path';

const [, , page, logs, lines] = process.argv;
const home = path.resolve(page, 'pyodide') + '/';
const { loadPyodide } = await import(home + 'pyodide.mjs');
const python = await loadPyodide({ indexURL: home, stderr: () => {} });
await python.loadPackage(['numpy', 'orjson'], { messageCallback: () => {} });
const site = '/lib/python3.13/site-packages';
python.unpackArchive(new Uint8Array(fs.readFileSync(path.join(page, 'batfill.zip'))), 'zip', { extractDir: site });
python.FS.writeFile(`${site}/inside.py`, fs.readFileSync(path.join(page, 'inside.py')));
python.FS.mkdirTree('/home/logs');
python.FS.mount(python.FS.filesystems.NODEFS, { root: path.resolve(logs) }, '/home/logs');
const { run } = python.pyimport('inside');
python.runPython('import os; os.chdir("/home/logs")');
for (const line of fs.readFileSync(lines, 'utf8').trim().split('\n')) {
  const began = performance.now();
  let text;
  try { text = run(line); } catch (error) { text = String(error); }
  console.log(JSON.stringify({ line, s: (performance.now() - began) / 1000, text }));
}
