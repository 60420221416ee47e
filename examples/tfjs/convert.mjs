// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// node convert.mjs MODEL.json GRAPH.pb: a frozen GraphDef of a graph model of TensorFlow.js.
import fs from 'node:fs';
import {toGraphDef} from './graph_def.mjs';
import {readArtifacts, readWeights} from './model.mjs';

const [input, output] = process.argv.slice(2);
if (!output) {
  console.error('node convert.mjs MODEL.json GRAPH.pb');
  process.exit(2);
}
const artifacts = readArtifacts(input);
fs.writeFileSync(output, toGraphDef(artifacts.modelTopology, await readWeights(artifacts)));
