// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Which scopes are open, the drawing of that, and moving about in it.

const kCharacter = 6.7, kMostLabel = 30, kScopePadding = 16, kScopeTitle = 22, kTitleCharacter = 7.6, kPinWidth = 8;
const kMostBoxes = 1500, kOpenAtOnce = 30;  // boxes
const kLegible = 0.7, kStageMargin = 8;  // the least scale at which a graph is shown at first

const open = new Set([0]);
const state = {constants: false, selected: -1, hits: new Set()};
let boxes = [], boxOfItem = new Map(), edges = [];
const svg = document.getElementById("graph"), scene = document.getElementById("scene");
const camera = {x: 0, y: 0, scale: 1};
let moved = false;  // by the reader; until then all of the graph is shown

function shorten(text) {
  const characters = [...text];
  if (characters.length <= kMostLabel) return text;
  const head = kMostLabel / 2 + 3;
  return characters.slice(0, head).join("") + "…" + characters.slice(head - kMostLabel + 1).join("");
}

// ---- What is to be seen

const isShown = (item) => state.constants || item.constants < item.nodes;

// The node that is all that a scope shows, or null: it stands for the scope.
function soleNode(item) {
  if (item.node >= 0) return item;
  if (item.kind !== kScope) return null;
  const shown = item.children.filter((child) => isShown(items[child]));
  return shown.length === 1 ? soleNode(items[shown[0]]) : null;
}

// What an open scope shows: its children, and the children of open groups.
function shownIn(item) {
  const shown = [];
  for (const child of item.children) {
    if (!isShown(items[child])) continue;
    if (items[child].kind === kGroup && open.has(child)) {
      shown.push(...shownIn(items[child]));
    } else {
      shown.push(soleNode(items[child]) ?? items[child]);
    }
  }
  return shown;
}

function makeBox(item, parent) {
  const box = {item, parent, open: open.has(item.id) && item.children.length > 0 && (item.kind !== kGroup), children: [], pins: [], edges: [], edgeOf: new Map()};
  box.depth = parent === null ? 0 : parent.depth + 1;
  let label = item.label;
  for (let p = items[item.parent]; parent !== null && p !== parent.item; p = items[p.parent]) {
    if (p.kind === kScope && p.label !== item.label) label = `${p.label}/${label}`;
  }
  box.label = shorten(label);
  box.detail = item.node < 0 ? plural(state.constants ? item.nodes : item.nodes - item.constants, "node") : opOf(item) === item.label ? "" : shorten(opOf(item));
  const widest = Math.max([...box.label].length, [...box.detail].length);
  box.width = Math.max(widest * kCharacter + (item.node < 0 ? 50 : 20), 44);
  box.height = box.detail === "" ? 26 : 41;
  boxes.push(box);
  boxOfItem.set(item.id, box);
  if (box.open) {
    for (const child of shownIn(item)) box.children.push(makeBox(child, box));
  }
  return box;
}

const boxOf = (item) => boxOfItem.get(item.id) ?? boxOfItem.get(soleNode(item)?.id);

function boxOfNode(node) {
  let item = items[itemOfNode[node]];
  if (!isShown(item)) return null;
  while (!boxOfItem.has(item.id)) item = items[item.parent];
  return boxOfItem.get(item.id);
}

// The edge between two places in an open box; null stands for a pin, where edges from outside come in or leave.
function layoutEdge(around, from, to) {
  const key = `${from} ${to}`;
  if (!around.edgeOf.has(key)) {
    const pin = (where) => around.pins.push({width: kPinWidth, height: 0, pin: where}) - 1 + around.children.length;
    const edge = {from: from ?? pin("first"), to: to ?? pin("last"), route: [], enters: from === null};
    around.edgeOf.set(key, edge);
    around.edges.push(edge);
  }
  return around.edgeOf.get(key);
}

// Out of the open boxes around `from`, across the one that holds both, into those around `to`.
function legsOf(from, to) {
  const legs = [], into = [];
  const leave = () => {
    legs.push(layoutEdge(from.parent, from.place, null));
    from = from.parent;
  };
  const enter = () => {
    into.unshift(layoutEdge(to.parent, null, to.place));
    to = to.parent;
  };
  while (from.depth > to.depth) leave();
  while (to.depth > from.depth) enter();
  while (from.parent !== to.parent) leave(), enter();
  return [...legs, layoutEdge(from.parent, from.place, to.place), ...into];
}

function liftEdges() {
  const known = new Map();
  for (let e = 0; e < numEdges; ++e) {
    const from = boxOfNode(data.edges[4 * e]), to = boxOfNode(data.edges[4 * e + 1]);
    if (from === null || to === null || from === to) continue;
    const key = from.number * boxes.length + to.number;
    let edge = known.get(key);
    if (edge === undefined) {
      edge = {from, to, count: 0, control: true, legs: legsOf(from, to)};
      known.set(key, edge);
      edges.push(edge);
    }
    ++edge.count;
    if (data.edges[4 * e + 2] >= 0) edge.control = false;
  }
}

// One route from the segments (legs) of an edge. A segment that ends at an open box ends at the box's centre; the route
// uses the pin of the neighbouring segment instead.
function joinLegs(legs) {
  const route = [];
  for (const leg of legs) {
    const part = leg.route.map((point) => [...point]);
    if (route.length > 0 && leg.enters) route[route.length - 1][0] = part[0][0];
    if (route.length > 0 && !leg.enters) part[0][0] = route[route.length - 1][0];
    route.push(...part);
  }
  return route;
}

function makeView() {
  boxes = [];
  boxOfItem = new Map();
  edges = [];
  makeBox(items[0], null);
  boxes.forEach((box, i) => { box.number = i; });
  for (const box of boxes) box.children.forEach((child, i) => { child.place = i; });
  liftEdges();
  for (const box of [...boxes].reverse()) {
    if (!box.open) continue;
    const size = layOut([...box.children, ...box.pins], box.edges);
    // The whole graph has neither frame nor title.
    const padding = box.parent === null ? 2 : kScopePadding, title = box.parent === null ? 0 : kScopeTitle;
    box.inset = {x: padding, y: padding + title};
    box.width = Math.max(size.width, title > 0 ? [...box.label].length * kTitleCharacter + 20 : 0) + 2 * padding;
    box.height = size.height + 2 * padding + title;
  }
  boxes[0].x = boxes[0].y = 0;
  for (const box of boxes) {
    if (!box.open) continue;
    const x = box.x + box.inset.x, y = box.y + box.inset.y;
    for (const child of box.children) {
      child.x += x;
      child.y += y;
    }
    for (const edge of box.edges) edge.route = edge.route.map(([px, py]) => [px + x, py + y]);
  }
  for (const edge of edges) edge.route = joinLegs(edge.legs);
}

// ---- Drawing

const round = (v) => Math.round(v * 10) / 10;

function pathOfRoute(route) {
  let path = `M${round(route[0][0])} ${round(route[0][1])}`;
  for (let i = 1; i < route.length; ++i) {
    const [px, py] = route[i - 1], [qx, qy] = route[i], middle = round((py + qy) / 2);
    path += Math.abs(px - qx) < 0.05 ? `V${round(qy)}` : `C${round(px)} ${middle} ${round(qx)} ${middle} ${round(qx)} ${round(qy)}`;
  }
  return path;
}

function drawBox(box) {
  const {item} = box;
  const group = addSvg("g", {class: `box ${item.kind}${box.open ? " open" : ""}`, "data-item": item.id, tabindex: 0, role: "button"}, scene);
  group.setAttribute("aria-label", pathOf(item) + (item.node >= 0 ? `, ${opOf(item)}` : `, ${box.detail}${box.open ? ", open" : ""}`));
  addSvg("rect", {x: round(box.x), y: round(box.y), width: round(box.width), height: round(box.height),
                   rx: box.open ? 8 : item.kind === kConst ? box.height / 2 : 5}, group);
  const middle = round(box.x + box.width / 2 - (item.children.length > 0 && !box.open ? 8 : 0));
  if (!box.open) {
    addSvg("text", {x: middle, y: round(box.y + 17)}, group, box.label);
    if (box.detail !== "") addSvg("text", {class: "detail", x: middle, y: round(box.y + 32)}, group, box.detail);
  }
  if (canOpen(item)) {
    const x = round(box.x + box.width - 21), y = round(box.y + 7);
    const toggle = addSvg("g", {class: "toggle", "data-toggle": item.id}, group);
    addSvg("rect", {x: x - 4, y: y - 4, width: 21, height: 21}, toggle);
    addSvg("path", {d: `M${x} ${y}h13v13h-13zM${x + 3} ${y + 6.5}h7${box.open ? "" : `M${x + 6.5} ${y + 3}v7`}`}, toggle);
  }
  box.drawn = group;
}

function draw() {
  makeView();
  scene.replaceChildren();
  for (const box of boxes) if (box.open && box.parent !== null) drawBox(box);
  for (const edge of edges) {
    if (edge.route.length < 2) continue;
    const width = edge.count > 1 ? Math.min(1.1 + 0.5 * Math.log2(edge.count), 5) : 1.1;
    edge.drawn = addSvg("path", {class: `edge${edge.control ? " control" : ""}`, "stroke-width": round(width), "marker-end": "url(#arrow)", d: pathOfRoute(edge.route)}, scene);
    edge.drawn.edge = edge;
  }
  for (const box of boxes) if (!box.open && box.parent !== null) drawBox(box);
  // Over the edges, which may cross them.
  for (const box of boxes) {
    if (box.open && box.parent !== null) box.title = addSvg("text", {class: "title", x: round(box.x + 12), y: round(box.y + 19)}, scene, box.label);
  }
  drawMarks();
}

// Marks the selected item, its neighbours, and the results of the search.
function drawMarks() {
  const chosen = state.selected < 0 ? undefined : boxOf(items[state.selected]);
  const near = new Set();
  const isIn = (box) => {
    for (let b = box; b !== null; b = b.parent) if (b === chosen) return true;
    return false;
  };
  for (const edge of edges) {
    if (!edge.drawn) continue;
    const from = chosen !== undefined && isIn(edge.from), to = chosen !== undefined && isIn(edge.to);
    edge.drawn.classList.toggle("from", from && !to);
    edge.drawn.classList.toggle("into", to && !from);
    edge.drawn.classList.toggle("dim", chosen !== undefined && !from && !to);
    if (from || to) near.add(edge.from).add(edge.to);
  }
  for (const box of boxes) {
    if (!box.drawn) continue;
    box.drawn.classList.toggle("selected", box === chosen);
    box.drawn.classList.toggle("hit", state.hits.has(box.item.id));
    box.drawn.classList.toggle("dim", chosen !== undefined && !box.open && !near.has(box) && !isIn(box));
  }
}

// ---- The part of the plane that is to be seen

function moveCamera() {
  scene.setAttribute("transform", `translate(${round(camera.x)} ${round(camera.y)}) scale(${camera.scale})`);
}

// The scale at which all of it is to be seen.
function scaleToFit() {
  const {width, height} = svg.getBoundingClientRect(), all = boxes[0];
  return Math.min((width - 2 * kStageMargin) / all.width, (height - 2 * kStageMargin) / all.height);
}

// All of it, or with a `least` scale, where that is too small, the start.
function fit(least = 0.02) {
  moved = false;
  const {width, height} = svg.getBoundingClientRect(), all = boxes[0];
  camera.scale = Math.min(1.25, Math.max(least, scaleToFit()));
  camera.x = (width - all.width * camera.scale) / 2;
  camera.y = Math.max((height - all.height * camera.scale) / 2, kStageMargin);
  moveCamera();
  moved = camera.scale > scaleToFit();
}

function zoom(factor, x, y) {
  moved = true;
  const {width, height} = svg.getBoundingClientRect();
  x ??= width / 2;
  y ??= height / 2;
  const scale = Math.min(6, Math.max(0.02, camera.scale * factor));
  camera.x = x - (x - camera.x) * scale / camera.scale;
  camera.y = y - (y - camera.y) * scale / camera.scale;
  camera.scale = scale;
  moveCamera();
}

function center(item) {
  const box = boxOf(item);
  if (box === undefined) return;
  const {width, height} = svg.getBoundingClientRect();
  const inside = Math.min((width - 40) / box.width, (height - 40) / box.height);
  camera.scale = Math.min(Math.max(camera.scale, 0.75), Math.max(inside, 0.05));
  camera.x = width / 2 - (box.x + box.width / 2) * camera.scale;
  camera.y = height / 2 - (box.y + box.height / 2) * camera.scale;
  moveCamera();
}

// ---- Opening and closing

const canOpen = (item) => item.id !== 0 && item.children.some((child) => isShown(items[child]));
const numShown = (item) => item.children.filter((child) => isShown(items[child])).length;

// Groups among `list`, and in them, the small ones first, while no more than `most` boxes come of it.
function openGroups(list, most) {
  let count = list.length;
  const groups = list.filter((item) => item.kind === kGroup);
  while (groups.length > 0) {
    groups.sort((a, b) => numShown(a) - numShown(b));
    const group = groups.shift();
    count += numShown(group) - 1;
    if (count > most) break;
    open.add(group.id);
    for (const child of group.children) if (items[child].kind === kGroup) groups.push(items[child]);
  }
}

// Opens or closes a scope, which stays where it is on the screen; a group is replaced by its children.
function toggle(item) {
  if (!canOpen(item)) return;
  moved = true;
  const before = boxOfItem.get(item.id);
  const at = before && {x: before.x * camera.scale + camera.x, y: before.y * camera.scale + camera.y};
  if (open.has(item.id)) {
    closeAll(item);
  } else {
    open.add(item.id);
    openGroups(shownIn(item), kOpenAtOnce);
  }
  const hadFocus = scene.contains(document.activeElement);
  draw();
  const after = boxOfItem.get(item.id) ?? boxOfItem.get(firstIn(item).id);
  if (at && after) {
    camera.x = at.x - after.x * camera.scale;
    camera.y = at.y - after.y * camera.scale;
  }
  moveCamera();
  if (hadFocus) after?.drawn?.focus({preventScroll: true});
}

function closeAll(item) {
  open.delete(item.id);
  for (const child of item.children) closeAll(items[child]);
}

// What is seen of an open group.
function firstIn(item) {
  return item.kind === kGroup && open.has(item.id) ? shownIn(item)[0] : item;
}

function openAllAround(item) {
  for (let i = item.parent; i >= 0; i = items[i].parent) open.add(i);
  if (!isShown(item)) setConstants(true);
}

const closedBoxes = () => boxes.filter((box) => !box.open && canOpen(box.item)).map((box) => box.item).sort((a, b) => numShown(a) - numShown(b));

// The scopes and groups that are to be seen and closed, the small ones first, while there are not too many boxes.
function openLevel() {
  let count = boxes.length;
  for (const item of closedBoxes()) {
    count += numShown(item);
    if (count > kMostBoxes) break;
    open.add(item.id);
  }
}

// Opens what leaves all of the graph legible: groups first, for they stand in the place of what is in them, a level of
// them together if that fits, else one by one; then scopes one by one, the small ones first.
function openWhatFits() {
  const until = performance.now() + 1500;
  const tryOpen = (list) => {
    for (const item of list) open.add(item.id);
    makeView();
    if (scaleToFit() >= kLegible) return true;
    for (const item of list) open.delete(item.id);
    makeView();
    return false;
  };
  makeView();
  const refused = new Set();  // items, and levels by their first group
  while (performance.now() < until && boxes.length < kMostBoxes) {
    const closed = closedBoxes().filter((item) => !refused.has(item.id));
    if (closed.length === 0) break;
    const groups = closed.filter((item) => item.kind === kGroup);
    const level = `level of ${groups[0]?.id}`;
    if (groups.length > 1 && !refused.has(level)) {
      if (!tryOpen(groups)) refused.add(level);
    } else {
      const item = groups[0] ?? closed[0];
      if (!tryOpen([item])) refused.add(item.id);
    }
  }
  draw();
}
