// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Runs graph models by TensorFlow.js and by `millrace`, and says how far their results lie apart.
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import * as tf from '@tensorflow/tfjs';
import {setThreadsCount, setWasmPaths} from '@tensorflow/tfjs-backend-wasm';
import {toGraphDef} from './graph_def.mjs';
import {readArtifacts, readWeights} from './model.mjs';
import {fromNpz, toNpy} from './npy.mjs';

const HELP = `node compare.mjs [options] MODEL.json…
  --millrace FILE   the program (build/release/bin/millrace)
  --size N          stands for unknown sizes of images (256)
  --feed NAME=JSON  {"shape": [1, 2], "values": [3, 4]} for an input; without values random ones
  --time            measure, too: milliseconds a run on one thread, beside TensorFlow.js's WebAssembly backend`;

const here = path.dirname(fileURLToPath(import.meta.url));
const {values: options, positionals: models} = parseArgs({
  allowPositionals: true,
  options: {
    millrace: {type: 'string', default: path.join(here, '../../build/release/bin/millrace')},
    size: {type: 'string', default: '256'},
    feed: {type: 'string', multiple: true, default: []},
    time: {type: 'boolean', default: false},
  },
});
if (models.length === 0) {
  console.error(HELP);
  process.exit(2);
}

let seed = 12345;
function random() {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

// Numbers in [0, 1), or [0, 256) for integers, where --feed has no values.
function makeFeed(input) {
  const prefix = `${input.name}=`;
  const given = JSON.parse(options.feed.find((feed) => feed.startsWith(prefix))?.slice(prefix.length) || '{}');
  const shape = given.shape || (input.shape || []).map((size, i) => size > 0 ? size : i === 0 ? 1 : Number(options.size));
  const count = shape.reduce((product, size) => product * size, 1);
  const isFloat = input.dtype === 'float32';
  const values = given.values || Array.from({length: count}, () => isFloat ? random() : Math.floor(256 * random()));
  return {shape, dtype: input.dtype, values: (isFloat ? Float32Array : Int32Array).from(values)};
}

// Every float moved to one of its neighbours: what rounding alone may do to the results.
function nudge(feed) {
  if (feed.dtype !== 'float32') return feed;
  const values = Float32Array.from(feed.values);
  const bits = new Int32Array(values.buffer);
  for (let i = 0; i < bits.length; i += 1) if (values[i] !== 0) bits[i] += random() < 0.5 ? 1 : -1;
  return {...feed, values};
}

async function runReference(model, feeds, backend, runs) {
  await tf.setBackend(backend);
  await tf.ready();
  const inputs = Object.fromEntries(Object.entries(feeds).map(([name, f]) => [name, tf.tensor(f.values, f.shape, f.dtype)]));
  const names = model.outputs.map((output) => output.name);
  let results, best = Infinity;
  for (let run = 0; run < runs; run += 1) {
    const start = performance.now();
    const tensors = [await model.executeAsync(inputs, names)].flat();
    results = await Promise.all(tensors.map(async (t) => ({shape: t.shape, dtype: t.dtype, values: await t.data()})));
    best = Math.min(best, performance.now() - start);
  }
  return {names, results, best};
}

class Millrace {
  constructor(graph, folder, names) {
    this.graph = graph;
    this.folder = folder;
    this.fetches = names.flatMap((name) => ['--fetch', name]);
  }

  // The feeds as arguments.
  write(feeds, label) {
    return Object.entries(feeds).flatMap(([name, feed], i) => {
      const file = path.join(this.folder, `${label}${i}.npy`);
      fs.writeFileSync(file, toNpy(feed.values, feed.shape, feed.dtype));
      return ['--feed', `${name}=${file}`];
    });
  }

  run(feeds, environment = {}) {
    const out = path.join(this.folder, 'out.npz');
    execFileSync(options.millrace, ['run', this.graph, ...this.write(feeds, 'feed'), ...this.fetches, '--out', out],
                 {env: {...process.env, ...environment}, stdio: ['ignore', 'ignore', 'pipe']});
    return fromNpz(fs.readFileSync(out));
  }

  // Milliseconds.
  time(feeds) {
    const text = execFileSync(options.millrace, ['bench', this.graph, ...this.write(feeds, 'feed'), ...this.fetches,
      '--intra-threads', '1', '--inter-threads', '1', '--seconds', '2', '--json']);
    return 1000 * JSON.parse(text).latency_s.min;
  }
}

// The greatest difference, in units of the greatest value of its tensor. Where all are below a thousandth (what
// a sigmoid makes of -20), that is the unit.
function distance(names, wanted, got) {
  let worst = 0;
  names.forEach((name, i) => {
    const {shape, values} = got.get(name);
    if (String(shape) !== String(wanted[i].shape)) throw new Error(`${name} has shape [${shape}], not [${wanted[i].shape}]`);
    let largest = 0, apart = 0;
    wanted[i].values.forEach((value, k) => {
      if (Object.is(value, values[k])) return;
      if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
      if (value !== values[k]) apart = Math.max(apart, Number.isFinite(value - values[k]) ? Math.abs(value - values[k]) : Infinity);
    });
    if (apart > 0) worst = Math.max(worst, apart / Math.max(largest, 1e-3));
  });
  return worst;
}

async function compare(file, folder) {
  const artifacts = readArtifacts(file);
  const graph = path.join(folder, 'graph.pb');
  await tf.setBackend('cpu');
  fs.writeFileSync(graph, toGraphDef(artifacts.modelTopology, await readWeights(artifacts)));
  const model = await tf.loadGraphModel({load: async () => artifacts});
  seed = 12345;
  const feeds = Object.fromEntries(model.inputs.map((input) => [input.name, makeFeed(input)]));
  const {names, results} = await runReference(model, feeds, 'cpu', 1);
  const millrace = new Millrace(graph, folder, names);
  const ours = millrace.run(feeds);
  const plain = millrace.run(feeds, {MILLRACE_DISABLE_PASSES: 'all'});
  const nudged = millrace.run(Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, nudge(feed)])));
  const error = distance(names, results, ours);
  const least = distance(names, names.map((name) => ours.get(name)), nudged);
  const line = {
    error: error.toExponential(1),
    'without passes': distance(names, results, plain).toExponential(1),
    'last bit of inputs': least.toExponential(1),
    ok: error <= Math.max(1e-5, 10 * least),
  };
  if (options.time) {
    line.millrace = `${millrace.time(feeds).toFixed(2)} ms`;
    try {
      line.wasm = `${(await runReference(model, feeds, 'wasm', 10)).best.toFixed(2)} ms`;
    } catch (problem) {
      line.wasm = 'cannot';
    }
  }
  return line;
}

console.warn = () => {};  // TensorFlow.js recommends this and that
setWasmPaths(`${path.join(here, 'node_modules/@tensorflow/tfjs-backend-wasm/dist')}/`);
setThreadsCount(1);
let failed = false;
for (const file of models) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'compare-'));
  try {
    const line = await compare(file, folder);
    failed ||= !line.ok;
    console.log(path.basename(file, '.json'), Object.entries(line).map(([key, value]) => `${key} ${value}`).join(', '));
  } catch (problem) {
    failed = true;
    console.log(path.basename(file, '.json'), `failed: ${problem.stderr || problem.message}`.trim());
  } finally {
    fs.rmSync(folder, {recursive: true});
  }
}
process.exit(failed ? 1 : 0);
