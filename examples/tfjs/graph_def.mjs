// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A TensorFlow.js graph model as a GraphDef: its topology is one in proto3's JSON, without the values of
// constants, and with a few ops that only TensorFlow.js has.

const TYPES = ['DT_INVALID', 'DT_FLOAT', 'DT_DOUBLE', 'DT_INT32', 'DT_UINT8', 'DT_INT16', 'DT_INT8', 'DT_STRING',
  'DT_COMPLEX64', 'DT_INT64', 'DT_BOOL', 'DT_QINT8', 'DT_QUINT8', 'DT_QINT32', 'DT_BFLOAT16', 'DT_QINT16',
  'DT_QUINT16', 'DT_UINT16', 'DT_COMPLEX128', 'DT_HALF', 'DT_RESOURCE', 'DT_VARIANT', 'DT_UINT32', 'DT_UINT64'];

// Field: [number, kind, repeated or map]. A kind is a scalar or the name of a message; an integer key of a map
// is in 'intmap'.
const MESSAGES = {
  GraphDef: {node: [1, 'NodeDef', 'list'], library: [2, 'Library'], versions: [4, 'Versions']},
  Versions: {producer: [1, 'int'], minConsumer: [2, 'int'], badConsumers: [3, 'int', 'list']},
  Library: {function: [1, 'FunctionDef', 'list']},
  NodeDef: {name: [1, 'string'], op: [2, 'string'], input: [3, 'string', 'list'], device: [4, 'string'],
    attr: [5, 'AttrValue', 'map']},
  AttrValue: {list: [1, 'ListValue'], s: [2, 'bytes'], i: [3, 'int'], f: [4, 'float'], b: [5, 'bool'],
    type: [6, 'type'], shape: [7, 'Shape'], tensor: [8, 'Tensor'], placeholder: [9, 'string'],
    func: [10, 'NameAttrList']},
  ListValue: {s: [2, 'bytes', 'list'], i: [3, 'int', 'list'], f: [4, 'float', 'list'], b: [5, 'bool', 'list'],
    type: [6, 'type', 'list'], shape: [7, 'Shape', 'list'], tensor: [8, 'Tensor', 'list'],
    func: [9, 'NameAttrList', 'list']},
  NameAttrList: {name: [1, 'string'], attr: [2, 'AttrValue', 'map']},
  Shape: {dim: [2, 'Dim', 'list'], unknownRank: [3, 'bool']},
  Dim: {size: [1, 'int'], name: [2, 'string']},
  Tensor: {dtype: [1, 'type'], tensorShape: [2, 'Shape'], tensorContent: [4, 'bytes'],
    floatVal: [5, 'float', 'list'], doubleVal: [6, 'double', 'list'], intVal: [7, 'int', 'list'],
    stringVal: [8, 'bytes', 'list'], int64Val: [10, 'int', 'list'], boolVal: [11, 'bool', 'list'],
    halfVal: [13, 'int', 'list']},
  FunctionDef: {signature: [1, 'OpDef'], nodeDef: [3, 'NodeDef', 'list'], ret: [4, 'string', 'map'],
    attr: [5, 'AttrValue', 'map'], controlRet: [6, 'string', 'map'], argAttr: [7, 'ArgAttrs', 'intmap']},
  ArgAttrs: {attr: [1, 'AttrValue', 'map']},
  OpDef: {name: [1, 'string'], inputArg: [2, 'ArgDef', 'list'], outputArg: [3, 'ArgDef', 'list'],
    isStateful: [17, 'bool'], controlOutput: [20, 'string', 'list']},
  ArgDef: {name: [1, 'string'], description: [2, 'string'], type: [3, 'type'], typeAttr: [4, 'string'],
    numberAttr: [5, 'string'], typeListAttr: [6, 'string'], isRef: [16, 'bool']},
};

function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes = [];
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

const delimited = (number, body) => [varint(number << 3 | 2), varint(body.length), body];

function field(number, kind, value) {
  const numeric = (v) => [varint(number << 3), varint(v)];
  switch (kind) {
    case 'int': return numeric(value);
    case 'bool': return numeric(value ? 1 : 0);
    case 'type': {
      const code = typeof value === 'number' ? value : TYPES.indexOf(value.replace(/_REF$/, ''));
      if (code < 0) throw new Error(`no such type: ${value}`);
      return numeric(String(value).endsWith('_REF') ? code + 100 : code);
    }
    case 'float': case 'double': {
      const bytes = Buffer.alloc(kind === 'float' ? 4 : 8);
      if (kind === 'float') bytes.writeFloatLE(Number(value)); else bytes.writeDoubleLE(Number(value));
      return [varint(number << 3 | (kind === 'float' ? 5 : 1)), bytes];
    }
    case 'string': return delimited(number, Buffer.from(value));
    case 'bytes': return delimited(number, typeof value === 'string' ? Buffer.from(value, 'base64') : value);
    default: return delimited(number, encode(kind, value));
  }
}

export function encode(message, value) {
  const parts = [];
  for (const [name, content] of Object.entries(value)) {
    const camel = name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
    const known = MESSAGES[message][camel];
    if (!known || content === null) continue;  // what only debuggers read
    const [number, kind, form] = known;
    if (form === 'list') {
      for (const entry of content) parts.push(...field(number, kind, entry));
    } else if (form) {
      for (const [key, entry] of Object.entries(content)) {
        const body = Buffer.concat([...field(1, form === 'intmap' ? 'int' : 'string', key), ...field(2, kind, entry)]);
        parts.push(...delimited(number, body));
      }
    } else {
      parts.push(...field(number, kind, content));
    }
  }
  return Buffer.concat(parts);
}

const text = (value) => Buffer.from(value, 'base64').toString();

const CONTENT = {DT_FLOAT: Float32Array, DT_DOUBLE: Float64Array, DT_INT32: Int32Array, DT_INT64: BigInt64Array,
  DT_BOOL: Uint8Array, DT_UINT8: Uint8Array, DT_INT8: Int8Array, DT_INT16: Int16Array};

// `values`: a typed array, or for strings an array of byte arrays.
function fillConstant(node, values) {
  const tensor = node.attr.value.tensor;
  if (tensor.dtype === 'DT_STRING') {
    tensor.stringVal = values.map((value) => Buffer.from(value));
    return;
  }
  const type = CONTENT[tensor.dtype];
  if (!type) throw new Error(`constant ${node.name} is of type ${tensor.dtype}`);
  const typed = type === BigInt64Array ? type.from(values, BigInt) : type.from(values);
  for (const name of Object.keys(tensor)) if (name.endsWith('Val')) delete tensor[name];
  tensor.tensorContent = Buffer.from(typed.buffer);
}

// max(x, 0) - alpha * max(-x, 0), under the name `name`
function prelu(name, x, alpha) {
  const T = {type: 'DT_FLOAT'};
  return [
    {name: `${name}/above`, op: 'Relu', input: [x], attr: {T}},
    {name: `${name}/negative`, op: 'Neg', input: [x], attr: {T}},
    {name: `${name}/below`, op: 'Relu', input: [`${name}/negative`], attr: {T}},
    {name: `${name}/scaled`, op: 'Mul', input: [alpha, `${name}/below`], attr: {T}},
    {name, op: 'Sub', input: [`${name}/above`, `${name}/scaled`], attr: {T}},
  ];
}

// TensorFlow 2 has these with segments of int64, too.
function withShortSegments(node) {
  const {Tsegmentids, ...attr} = node.attr;
  if (Tsegmentids?.type !== 'DT_INT64') return [{...node, attr}];
  const segments = `${node.name}/segments`;
  const types = {SrcT: Tsegmentids, DstT: {type: 'DT_INT32'}};
  const [data, indices, ids, ...rest] = node.input;
  return [{name: segments, op: 'Cast', input: [ids], attr: types}, {...node, input: [data, indices, segments, ...rest], attr}];
}

// What TensorFlow 1.15 has no op for, in its ops; with `unfuse` also what its optimiser fuses.
function expand(node, unfuse) {
  if (/^SparseSegment(Mean|SqrtN|Sum)$/.test(node.op)) return withShortSegments(node);
  if (node.op === 'Prelu') return prelu(node.name, node.input[0], node.input[1]);
  const plain = {_FusedConv2D: 'Conv2D', FusedDepthwiseConv2dNative: 'DepthwiseConv2dNative', _FusedMatMul: 'MatMul'}[node.op];
  if (!plain) return [node];
  const fused = (node.attr.fused_ops.list.s || []).map(text);
  if (!unfuse && node.op.startsWith('_') && !fused.includes('Prelu') && !fused.includes('Sigmoid')) return [node];
  const {fused_ops, num_args, epsilon, leakyrelu_alpha, ...attr} = node.attr;
  const args = node.input.slice(2);
  let out = `${node.name}/product`;
  const nodes = [{name: out, op: plain, input: node.input.slice(0, 2), attr}];
  fused.forEach((op, i) => {
    const name = i + 1 < fused.length ? `${node.name}/${op}` : node.name;
    const T = {type: 'DT_FLOAT'};
    if (op === 'Prelu') nodes.push(...prelu(name, out, args.shift()));
    else if (op === 'BiasAdd') {
      const format = attr.data_format ? {data_format: attr.data_format} : {};
      nodes.push({name, op, input: [out, args.shift()], attr: {T, ...format}});
    } else if (op === 'LeakyRelu') nodes.push({name, op, input: [out], attr: {T, alpha: leakyrelu_alpha}});
    else nodes.push({name, op, input: [out], attr: {T}});
    out = name;
  });
  return nodes;
}

// `weights`: the values of constants, by the names of their nodes.
export function toGraphDef(topology, weights, {unfuse = false} = {}) {
  const take = (nodes) => nodes.flatMap((node) => {
    if (node.op === 'Const' && weights.has(node.name)) fillConstant(node, weights.get(node.name));
    return expand(node, unfuse);
  });
  const graph = structuredClone(topology);
  graph.node = take(graph.node);
  for (const fn of graph.library?.function || []) {
    if (fn.nodeDef) fn.nodeDef = take(fn.nodeDef);
  }
  return encode('GraphDef', graph);
}
