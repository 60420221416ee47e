// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A graph model of TensorFlow.js in files: model.json and what its manifest names.
import fs from 'node:fs';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';

export function readArtifacts(file) {
  const json = JSON.parse(fs.readFileSync(file));
  if (json.format !== 'graph-model') throw new Error(`${file} is no graph model but a ${json.format}`);
  const folder = path.dirname(file);
  const shards = json.weightsManifest.flatMap((group) => group.paths.map((name) => fs.readFileSync(path.join(folder, name))));
  const {weightsManifest, ...rest} = json;
  return {
    ...rest,
    weightSpecs: weightsManifest.flatMap((group) => group.weights),
    weightData: new Uint8Array(Buffer.concat(shards)).buffer,
  };
}

// The values of constants by the names of their nodes: typed arrays, arrays of bytes for strings.
export async function readWeights(artifacts) {
  const tensors = await tf.io.decodeWeights(artifacts.weightData, artifacts.weightSpecs);
  const values = new Map();
  for (const [name, tensor] of Object.entries(tensors)) {
    values.set(name, tensor.dtype === 'string' ? await tensor.bytes() : await tensor.data());
  }
  return values;
}
