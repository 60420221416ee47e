// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The data of the page: items (scopes, groups, nodes) by number, and the edges of nodes.

const kScope = "scope", kGroup = "group-of", kOp = "op", kConst = "const", kVariable = "variable", kPlaceholder = "placeholder";

function kindOfOp(op) {
  if (op === "Const") return kConst;
  if (op.startsWith("Placeholder") || op === "_Arg") return kPlaceholder;
  if (op.startsWith("Variable") || op === "VarHandleOp") return kVariable;
  return kOp;
}

const items = data.items.label.map((label, id) => ({
  id, label, parent: data.items.parent[id], node: data.items.node[id], children: [], nodes: 0, constants: 0, kind: kScope, depth: 0,
}));
const isConstant = new Uint8Array(data.nodes.op.length);  // or made of constants alone
for (const node of data.constants) isConstant[node] = 1;
for (const item of items) {
  if (item.parent >= 0) {
    items[item.parent].children.push(item.id);
    item.depth = items[item.parent].depth + 1;
  }
  if (item.node >= 0) {
    item.kind = kindOfOp(data.ops[data.nodes.op[item.node]]);
    item.nodes = 1;
    item.constants = isConstant[item.node];
  } else if (item.node === -2) {
    item.kind = kGroup;
  }
}
for (let i = items.length - 1; i > 0; --i) {
  items[items[i].parent].nodes += items[i].nodes;
  items[items[i].parent].constants += items[i].constants;
}

const itemOfNode = new Int32Array(data.nodes.op.length);
for (const item of items) if (item.node >= 0) itemOfNode[item.node] = item.id;

const opOf = (item) => item.node >= 0 ? data.ops[data.nodes.op[item.node]] : "";

// "a/b/c"; groups leave no trace in it.
function pathOf(item) {
  if (item.node >= 0) return data.nodes.name[item.node];
  const parts = [];
  for (let i = item; i.parent >= 0; i = items[i.parent]) if (i.kind !== kGroup) parts.unshift(i.label);
  return item.kind === kGroup ? (parts.length ? parts.join("/") + "/" : "") + item.label : parts.join("/");
}

// Edges in lists of four numbers: from, to, output (-1: control), input. Those of node n: numbers in
// edgesInto[start[n]] … edgesInto[start[n + 1] - 1].
const numEdges = data.edges.length / 4;
function edgesBy(field) {
  const start = new Int32Array(itemOfNode.length + 1), list = new Int32Array(numEdges);
  for (let e = 0; e < numEdges; ++e) ++start[data.edges[4 * e + field] + 1];
  for (let n = 0; n < itemOfNode.length; ++n) start[n + 1] += start[n];
  const next = start.slice();
  for (let e = 0; e < numEdges; ++e) list[next[data.edges[4 * e + field]]++] = e;
  return (node) => list.subarray(start[node], start[node + 1]);
}
const edgesFrom = edgesBy(0), edgesInto = edgesBy(1);
