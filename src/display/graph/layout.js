// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A drawing in layers by dagre, sources on top: one call for each part that hangs together, and the parts side by side.

const kColumnGap = 18, kRowGap = 34, kPinGap = 16, kPartGap = 34;
const kMostBends = 2000;  // edges over many layers are bent around boxes while there are no more bends than this

// Places `boxes` ({width, height, pin: "first" or "last": where edges from outside come in or leave} -> {x, y}) and
// routes `edges` ({from, to} -> {route: [[x, y], …]}). Returns the size of all.
function layOut(boxes, edges) {
  const parts = findParts(boxes, edges);
  for (const part of parts) part.size = layOutPart(boxes, part);
  return packParts(boxes, parts);
}

function findParts(boxes, edges) {
  const leader = boxes.map((_, i) => i);
  const find = (i) => {
    while (leader[i] !== i) i = leader[i] = leader[leader[i]];
    return i;
  };
  for (const edge of edges) {
    const a = find(edge.from), b = find(edge.to);
    leader[Math.max(a, b)] = Math.min(a, b);
  }
  const parts = new Map();
  boxes.forEach((_, i) => {
    const first = find(i);
    if (!parts.has(first)) parts.set(first, {boxes: [], edges: []});
    parts.get(first).boxes.push(i);
  });
  for (const edge of edges) parts.get(find(edge.from)).edges.push(edge);
  return [...parts.values()];
}

// The layer of each box, by the longest way; edges that close a cycle do not count.
function findLayers(part) {
  const layer = new Map(part.boxes.map((i) => [i, 0])), out = new Map(part.boxes.map((i) => [i, []])), state = new Map();
  for (const edge of part.edges) out.get(edge.from).push(edge.to);
  const finished = [];
  for (const root of part.boxes) {
    const way = state.has(root) ? [] : [[root, 0]];
    state.set(root, 1);
    while (way.length > 0) {
      const top = way[way.length - 1], next = out.get(top[0])[top[1]++];
      if (next === undefined) {
        finished.push(way.pop()[0]);
      } else if (!state.has(next)) {
        state.set(next, 1);
        way.push([next, 0]);
      }
    }
  }
  const place = new Map(finished.map((i, k) => [i, -k]));
  for (const i of finished.reverse()) {
    for (const to of out.get(i)) if (place.get(to) > place.get(i)) layer.set(to, Math.max(layer.get(to), layer.get(i) + 1));
  }
  return layer;
}

// Edges that dagre is to bend, the short ones first: each layer that one crosses costs time.
function edgesToBend(part) {
  const layer = findLayers(part), span = (edge) => Math.abs(layer.get(edge.to) - layer.get(edge.from));
  let bends = 0;
  return [...part.edges].sort((a, b) => span(a) - span(b)).filter((edge) => (bends += 2 * span(edge) - 1) <= kMostBends);
}

function layOutPart(boxes, part) {
  if (part.edges.length === 0) {
    const box = boxes[part.boxes[0]];
    box.x = box.y = 0;
    return {width: box.width, height: box.height};
  }
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({nodesep: kColumnGap, edgesep: 8, ranksep: kRowGap, ranker: part.boxes.length > 300 ? "longest-path" : "network-simplex"});
  for (const i of part.boxes) graph.setNode(String(i), {width: boxes[i].width, height: boxes[i].height});
  const bent = edgesToBend(part);
  for (const edge of bent) graph.setEdge(String(edge.from), String(edge.to), {});
  // Pins are in the first and in the last layer: a heavy edge keeps them there.
  for (const pin of ["first", "last"]) {
    const pins = part.boxes.filter((i) => boxes[i].pin === pin);
    if (pins.length > 0) graph.setNode(pin, {width: 0, height: 0});
    for (const i of pins) graph.setEdge(...(pin === "first" ? [pin, String(i)] : [String(i), pin]), {weight: part.edges.length + 1});
  }
  dagre.layout(graph);
  for (const i of part.boxes) {
    const {x, y} = graph.node(String(i)), box = boxes[i];
    box.x = x - box.width / 2;
    box.y = y - box.height / 2;
  }
  const rows = rowsOf(boxes, part), routed = new Set(bent);
  for (const edge of part.edges) edge.route = routeOf(boxes[edge.from], boxes[edge.to], routed.has(edge) ? graph.edge(String(edge.from), String(edge.to)).points : [], rows);
  return trim(boxes, part);
}

// The layers: their middle, top and bottom.
function rowsOf(boxes, part) {
  const rows = new Map();
  for (const i of part.boxes) {
    const box = boxes[i];
    if (box.pin) continue;
    const middle = Math.round(box.y + box.height / 2), row = rows.get(middle);
    rows.set(middle, {middle, top: Math.min(row?.top ?? Infinity, box.y), bottom: Math.max(row?.bottom ?? -Infinity, box.y + box.height)});
  }
  return [...rows.values()];
}

// From the lower side of one box to the upper side of the other, straight past the layers between them. Edges that go
// back take the way the other way round.
function routeOf(from, to, points, rows) {
  const up = to.y + to.height < from.y, start = [from.x + from.width / 2, up ? from.y : from.y + from.height], end = [to.x + to.width / 2, up ? to.y + to.height : to.y];
  const route = [start];
  for (const {x, y} of points.slice(1, -1)) {
    const row = rows.find(({middle}) => Math.abs(middle - y) <= 1);
    if (row === undefined || (row.bottom > start[1]) === up || (row.top < end[1]) === up) continue;
    route.push(...(up ? [[x, row.bottom], [x, row.top]] : [[x, row.top], [x, row.bottom]]));
  }
  route.push(end);
  return route;
}

// Moves the part to the origin. Above the first and below the last box there is no more than the way to the pins.
function trim(boxes, part) {
  const real = part.boxes.map((i) => boxes[i]).filter((box) => !box.pin);
  const hasPin = (pin) => part.boxes.some((i) => boxes[i].pin === pin);
  let top = Infinity, bottom = -Infinity, left = Infinity, right = -Infinity;
  for (const box of real.length > 0 ? real : part.boxes.map((i) => boxes[i])) {
    top = Math.min(top, box.y);
    bottom = Math.max(bottom, box.y + box.height);
  }
  if (hasPin("first")) top -= kPinGap;
  if (hasPin("last")) bottom += kPinGap;
  const clamp = (y) => Math.min(Math.max(y, top), bottom);
  for (const i of part.boxes) {
    const box = boxes[i];
    if (box.pin) box.y = clamp(box.y);
    left = Math.min(left, box.x);
    right = Math.max(right, box.x + box.width);
  }
  for (const {route} of part.edges) {
    for (const point of route) {
      point[1] = clamp(point[1]);
      left = Math.min(left, point[0]);
      right = Math.max(right, point[0]);
    }
  }
  for (const i of part.boxes) {
    boxes[i].x -= left;
    boxes[i].y -= top;
  }
  for (const edge of part.edges) edge.route = edge.route.map(([x, y]) => [x - left, y - top]);
  return {width: right - left, height: bottom - top};
}

// Rows of parts, the tallest first, about as wide as a screen is.
function packParts(boxes, parts) {
  parts.sort((a, b) => b.size.height - a.size.height);
  let area = 0, widest = 0;
  for (const {size} of parts) {
    area += (size.width + kPartGap) * (size.height + kPartGap);
    widest = Math.max(widest, size.width);
  }
  const line = Math.max(widest, Math.sqrt(area * 1.6)), all = {width: 0, height: 0};
  let x = 0, y = 0, row = 0;
  for (const part of parts) {
    if (x > 0 && x + part.size.width > line) {
      x = 0;
      y += row + kPartGap;
      row = 0;
    }
    for (const i of part.boxes) {
      boxes[i].x += x;
      boxes[i].y += y;
    }
    for (const edge of part.edges) edge.route = edge.route.map(([px, py]) => [px + x, py + y]);
    all.width = Math.max(all.width, x + part.size.width);
    all.height = Math.max(all.height, y + part.size.height);
    row = Math.max(row, part.size.height);
    x += part.size.width + kPartGap;
  }
  return all;
}
