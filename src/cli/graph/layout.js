// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A drawing in layers, sources on top; the same as in layout.cc, which says how it is done.

const kColumnGap = 18, kRowGap = 46, kPinGap = 16, kPartGap = 34, kWaypointWidth = 8, kMostWaypoints = 20000;

// Places `boxes` ({width, height, pin: "first" or "last" layer} -> {x, y}) and routes `edges` ({from, to} -> {route: [[x, y], …]}). Returns the
// size of all.
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

function breakCycles(nodes, arcs) {
  const out = nodes.map(() => []), fanIn = new Int32Array(nodes.length), state = new Uint8Array(nodes.length);
  for (const arc of arcs) {
    out[arc.from].push(arc);
    ++fanIn[arc.to];
  }
  const walk = (root) => {
    const way = [[root, 0]];
    state[root] = 1;
    while (way.length > 0) {
      const top = way[way.length - 1];
      if (top[1] === out[top[0]].length) {
        state[top[0]] = 2;
        way.pop();
        continue;
      }
      const arc = out[top[0]][top[1]++];
      if (state[arc.to] === 1) arc.reversed = true;
      if (state[arc.to] === 0) {
        state[arc.to] = 1;
        way.push([arc.to, 0]);
      }
    }
  };
  for (let i = 0; i < nodes.length; ++i) if (fanIn[i] === 0 && state[i] === 0) walk(i);
  for (let i = 0; i < nodes.length; ++i) if (state[i] === 0) walk(i);
  for (const arc of arcs) if (arc.reversed) [arc.from, arc.to] = [arc.to, arc.from];
}

function rankNodes(nodes, arcs) {
  const out = nodes.map(() => []), left = new Int32Array(nodes.length);
  for (const arc of arcs) {
    out[arc.from].push(arc.to);
    ++left[arc.to];
  }
  const fanIn = left.slice(), ready = [];
  for (let i = 0; i < nodes.length; ++i) if (left[i] === 0) ready.push(i);
  for (let k = 0; k < ready.length; ++k) {
    for (const to of out[ready[k]]) {
      nodes[to].rank = Math.max(nodes[to].rank, nodes[ready[k]].rank + 1);
      if (--left[to] === 0) ready.push(to);
    }
  }
  const last = Math.max(...nodes.map((node) => node.rank));
  for (let i = 0; i < nodes.length; ++i) {
    const {pin} = nodes[i].box;
    if (pin === "last") nodes[i].rank = last;
    if (fanIn[i] === 0 && out[i].length > 0 && pin !== "first") nodes[i].rank = Math.min(...out[i].map((to) => nodes[to].rank)) - 1;
  }
}

function addWaypoints(nodes, arcs) {
  let waypoints = 0;
  for (const arc of arcs) {
    const length = nodes[arc.to].rank - nodes[arc.from].rank - 1;
    if (waypoints + length > kMostWaypoints) continue;
    waypoints += length;
    arc.chain = [arc.from];
    for (let rank = nodes[arc.from].rank + 1; rank < nodes[arc.to].rank; ++rank) {
      arc.chain.push(nodes.length);
      nodes.push({width: kWaypointWidth, rank, up: [], down: [], x: 0, waypoint: true});
    }
    arc.chain.push(arc.to);
    for (let i = 0; i + 1 < arc.chain.length; ++i) {
      nodes[arc.chain[i]].down.push(nodes[arc.chain[i + 1]]);
      nodes[arc.chain[i + 1]].up.push(nodes[arc.chain[i]]);
    }
  }
}

function mean(neighbours, otherwise) {
  if (neighbours.length === 0) return otherwise;
  let sum = 0;
  for (const node of neighbours) sum += node.x;
  return sum / neighbours.length;
}

function orderLayers(layers) {
  const number = (layer) => layer.forEach((node, i) => { node.x = (i + 0.5) / layer.length; });
  layers.forEach(number);
  for (let sweep = 0; sweep < 8; ++sweep) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      for (const node of layer) node.wanted = mean(down ? node.up : node.down, node.x);
      layer.sort((a, b) => a.wanted - b.wanted);
      number(layer);
    }
  }
}

// As near as possible to the middle of neighbours without a change of order: pools of nodes that touch.
function placeLayer(layer) {
  const pools = [];
  let at = 0;
  for (const node of layer) {
    node.left = at + node.width / 2;
    at += node.width + kColumnGap;
    const up = node.up.length, down = node.down.length;
    const wanted = up + down > 0 ? (mean(node.up, 0) * up + mean(node.down, 0) * down) / (up + down) : node.x;
    const weight = node.waypoint ? 4 : 1;
    pools.push({sum: (wanted - node.left) * weight, weight, nodes: [node]});
    while (pools.length > 1) {
      const last = pools[pools.length - 1], before = pools[pools.length - 2];
      if (before.sum / before.weight <= last.sum / last.weight) break;
      pools.pop();
      before.sum += last.sum;
      before.weight += last.weight;
      for (const moved of last.nodes) before.nodes.push(moved);
    }
  }
  for (const pool of pools) for (const node of pool.nodes) node.x = node.left + pool.sum / pool.weight;
}

function placeColumns(layers) {
  for (const layer of layers) {
    let at = 0;
    for (const node of layer) {
      node.x = at + node.width / 2;
      at += node.width + kColumnGap;
    }
    for (const node of layer) node.x -= at / 2;
  }
  for (let sweep = 0; sweep < 8; ++sweep) (sweep % 2 === 0 ? layers : [...layers].reverse()).forEach(placeLayer);
}

function layOutPart(boxes, part) {
  const place = new Map(part.boxes.map((box, i) => [box, i]));
  const nodes = part.boxes.map((i) => ({box: boxes[i], width: boxes[i].width, rank: 0, up: [], down: [], x: 0}));
  const arcs = part.edges.map((edge) => ({edge, from: place.get(edge.from), to: place.get(edge.to), chain: [], reversed: false}));
  breakCycles(nodes, arcs);
  rankNodes(nodes, arcs);
  addWaypoints(nodes, arcs);
  const layers = [];
  for (const node of nodes) (layers[node.rank] ??= []).push(node);
  orderLayers(layers);
  placeColumns(layers);
  let least = Infinity, most = -Infinity, at = 0;
  for (const node of nodes) {
    least = Math.min(least, node.x - node.width / 2);
    most = Math.max(most, node.x + node.width / 2);
  }
  const rows = [];
  for (const layer of layers) {
    const height = Math.max(0, ...layer.filter((n) => n.box).map((n) => n.box.height));
    // Layers of nothing but pins need no room for arrows.
    if (rows.length > 0) at += height === 0 || rows[rows.length - 1].height === 0 ? kPinGap : kRowGap;
    rows.push({top: at, height});
    at += height;
  }
  for (const node of nodes) {
    if (!node.box) continue;
    node.box.x = node.x - least - node.width / 2;
    node.box.y = rows[node.rank].top + (rows[node.rank].height - node.box.height) / 2;
  }
  for (const arc of arcs) {
    const from = nodes[arc.from].box, to = nodes[arc.to].box, route = [[from.x + from.width / 2, from.y + from.height]];
    for (const i of arc.chain.slice(1, -1)) {
      const row = rows[nodes[i].rank], x = nodes[i].x - least;
      route.push([x, row.top], [x, row.top + row.height]);
    }
    route.push([to.x + to.width / 2, to.y]);
    arc.edge.route = arc.reversed ? route.reverse() : route;
  }
  return {width: most - least, height: at};
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
