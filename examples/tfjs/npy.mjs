// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// NumPy's files, as far as tensors of TensorFlow.js need them.
import zlib from 'node:zlib';

const DESCR = {float32: '<f4', int32: '<i4', bool: '|b1'};
const ARRAY = {'<f4': Float32Array, '<f8': Float64Array, '<i4': Int32Array, '<i8': BigInt64Array, '|b1': Uint8Array,
  '|u1': Uint8Array};

export function toNpy(values, shape, dtype) {
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const header = `{'descr': '${DESCR[dtype]}', 'fortran_order': False, 'shape': (${dims}), }`;
  const text = `${header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11)}\n`;
  const start = Buffer.from('\x93NUMPY\x01\x00\x00\x00', 'latin1');
  start.writeUInt16LE(text.length, 8);
  return Buffer.concat([start, Buffer.from(text), Buffer.from(values.buffer, values.byteOffset, values.byteLength)]);
}

export function fromNpy(bytes) {
  const wide = bytes[6] > 1;
  const at = wide ? 12 : 10;
  const end = at + (wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  const header = bytes.subarray(at, end).toString();
  const descr = /'descr': '([^']*)'/.exec(header)[1];
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter((size) => size.trim()).map(Number);
  if (!ARRAY[descr]) throw new Error(`elements of type ${descr}`);
  const values = new ARRAY[descr](new Uint8Array(bytes.subarray(end)).buffer);
  return {shape, values: descr === '<i8' ? Float64Array.from(values, Number) : values};
}

// The arrays of an archive by name.
export function fromNpz(bytes) {
  const arrays = new Map();
  let end = bytes.length - 22;
  while (end > 0 && bytes.readUInt32LE(end) !== 0x06054b50) end -= 1;
  let entry = bytes.readUInt32LE(end + 16);
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left -= 1) {
    const length = bytes.readUInt16LE(entry + 28);
    const name = bytes.subarray(entry + 46, entry + 46 + length).toString();
    const at = bytes.readUInt32LE(entry + 42);
    const data = at + 30 + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28);
    let body = bytes.subarray(data, data + bytes.readUInt32LE(entry + 20));
    if (bytes.readUInt16LE(entry + 10) === 8) body = zlib.inflateRawSync(body);
    arrays.set(name.replace(/\.npy$/, ''), fromNpy(body));
    entry += 46 + length + bytes.readUInt16LE(entry + 30) + bytes.readUInt16LE(entry + 32);
  }
  return arrays;
}
