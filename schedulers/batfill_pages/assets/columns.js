// Unpacks the columns of packing.py to typed arrays by name.
const TYPES = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };

async function unpack({ columns, data }) {
  const bytes = await inflated(data), arrays = {};
  let at = 0;
  for (const { name, type, length } of columns) {
    const size = TYPES[type].BYTES_PER_ELEMENT;
    arrays[name] = new TYPES[type](joined(bytes, at, length, size).buffer);
    at += length * size;
  }
  return arrays;
}

async function inflated(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Bytes of equal significance are adjacent in the file; this restores the numbers.
function joined(bytes, at, length, size) {
  const out = new Uint8Array(length * size);
  for (let plane = 0; plane < size; plane++) {
    const from = at + plane * length;
    for (let i = 0; i < length; i++) out[i * size + plane] = bytes[from + i];
  }
  return out;
}
