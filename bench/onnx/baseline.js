// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Runs a model of ONNX for compare.py: reads lines {"repeats": n} and answers each with a line {"ms": best of a
// run}; the first answer has the values of the output, too.
//
//   node baseline.js MODEL.onnx INPUTS.json THREADS
const fs = require('fs');
const ort = require('onnxruntime-node');
const readline = require('readline');

async function main([model, inputs, threads]) {
  const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
  });
  const feeds = {};
  for (const { name, type, dims, file } of JSON.parse(fs.readFileSync(inputs))) {
    const bytes = fs.readFileSync(file);
    const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    feeds[name] = new ort.Tensor(type, type === 'int32' ? new Int32Array(copy) : new Float32Array(copy), dims);
  }
  const first = Object.values(await session.run(feeds))[0];
  console.log(JSON.stringify({ values: Array.from(first.data.slice(0, 1000)) }));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let best = Infinity;
    for (let i = 0; i < JSON.parse(line).repeats; ++i) {
      const start = process.hrtime.bigint();
      await session.run(feeds);
      best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e6);
    }
    console.log(JSON.stringify({ ms: best }));
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(String(error));
  process.exit(1);
});
