// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What the page shows about the selected item, search, and the actions of mouse and keys.

const panel = document.getElementById("details");
function facts(pairs, parent) {
  const list = add("dl", {class: "facts"}, parent);
  for (const [key, value] of pairs) {
    add("dt", {}, list, key);
    add("dd", {}, list, value);
  }
}

const kMostLinks = 60;

// Nodes at the other end of edges, as buttons that lead there.
function links(title, numbers, end, parent) {
  if (numbers.length === 0) return;
  add("h3", {}, parent, `${title} (${thousands(numbers.length)})`);
  const list = add("ul", {class: "links"}, parent);
  for (const e of numbers.slice(0, kMostLinks)) {
    const node = data.edges[4 * e + end], output = data.edges[4 * e + 2];
    const line = add("li", {}, list);
    add("span", {class: "slot"}, line, output < 0 ? "^" : String(end === 0 ? data.edges[4 * e + 3] : output));
    const button = add("button", {type: "button"}, line, data.nodes.name[node] + (end === 0 && output > 0 ? ":" + output : ""));
    button.addEventListener("click", () => goTo(items[itemOfNode[node]]));
  }
  if (numbers.length > kMostLinks) add("li", {}, list, "…");
}

function splitAttribute(text) {
  const colon = text.indexOf(": ");
  return [text.slice(0, colon), text.slice(colon + 2)];
}

function tellNode(item) {
  add("p", {class: "kind"}, panel, opOf(item));
  const device = data.devices[data.nodes.device[item.node]];
  const pairs = device === "" ? [] : [["device", device]];
  for (const number of data.nodes.attributes[item.node]) {
    pairs.push(splitAttribute(data.attributes[number]));
  }
  if (pairs.length > 0) facts(pairs, panel);
  links("Inputs", edgesInto(item.node), 0, panel);
  links("Used by", edgesFrom(item.node), 1, panel);
}

function nodesIn(item) {
  const nodes = [], left = [item.id];
  while (left.length > 0) {
    const next = items[left.pop()];
    if (next.node >= 0) nodes.push(next.node);
    left.push(...next.children);
  }
  return nodes;
}

// The ops of nodes, the most frequent first.
function countOps(nodes) {
  const counts = new Map();
  for (const node of nodes) {
    const op = data.ops[data.nodes.op[node]];
    counts.set(op, (counts.get(op) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function opTable(nodes, parent) {
  const sorted = countOps(nodes);
  add("h3", {}, parent, `Ops (${sorted.length})`);
  const table = add("table", {class: "bars"}, parent);
  for (const [op, count] of sorted.slice(0, 30)) {
    const row = add("tr", {}, table);
    const button = add("button", {type: "button"}, add("td", {}, row), op);
    button.addEventListener("click", () => {
      byId("search").value = "op:" + op;
      search();
    });
    add("td", {}, row, thousands(count));
  }
  if (sorted.length > 30) add("td", {}, add("tr", {}, table), "…");
}

function tellScope(item) {
  add("p", {class: "kind"}, panel, item.id === 0 ? "the whole graph" : item.kind === kGroup ? "group, made because there are many" : "scope");
  const nodes = nodesIn(item), inside = new Set(nodes);
  const pairs = [["nodes", thousands(nodes.length)], ["items", thousands(item.children.length)]];
  if (item.id === 0) {
    pairs.push(["edges", thousands(numEdges)]);
    if (data.producer > 0) pairs.push(["producer", String(data.producer)]);
    if (data.functions.length > 0) pairs.push(["functions", data.functions.slice(0, 20).join(", ")]);
  }
  facts(pairs, panel);
  if (item.id !== 0) {
    const into = [], from = [];
    for (const node of nodes) {
      for (const e of edgesInto(node)) if (!inside.has(data.edges[4 * e])) into.push(e);
      for (const e of edgesFrom(node)) if (!inside.has(data.edges[4 * e + 1])) from.push(e);
    }
    links("Inputs", into, 0, panel);
    links("Used by", from, 1, panel);
  }
  opTable(nodes, panel);
}

function tell() {
  const item = items[Math.max(state.selected, 0)];
  panel.replaceChildren();
  add("h2", {}, panel, item.id === 0 ? data.title : pathOf(item));
  const around = items[item.parent];
  if (around?.kind === kGroup && open.has(around.id)) {
    const fold = add("button", {type: "button", class: "fold", title: "Put this and its neighbours into a group (f)"}, panel, `Fold ${plural(numShown(around), "box")} into a group`);
    fold.addEventListener("click", foldSelected);
  }
  if (item.node >= 0) {
    tellNode(item);
  } else {
    tellScope(item);
  }
  panel.scrollTop = 0;
}

// Closes the innermost open group around the selected item, and selects the group.
function foldSelected() {
  const group = items[items[Math.max(state.selected, 0)].parent];
  if (group?.kind !== kGroup) return;
  closeAll(group);
  state.selected = group.id;
  draw();
  tell();
  center(group);
}

function select(item) {
  state.selected = item === null ? -1 : item.id;
  drawMarks();
  tell();
}

function goTo(item) {
  moved = true;
  openAllAround(item);
  state.selected = item.id;
  draw();
  tell();
  center(item);
}

// ---- Search

let found = [], at = -1;

function search() {
  const text = byId("search").value.trim().toLowerCase();
  found = [];
  at = -1;
  state.hits = new Set();
  if (text !== "") {
    const op = text.startsWith("op:") ? text.slice(3).trim() : null;
    for (const item of items) {
      if (item.id === 0) continue;
      const hit = op !== null ? opOf(item).toLowerCase() === op
          : (item.node >= 0 ? data.nodes.name[item.node] : item.label).toLowerCase().includes(text) || opOf(item).toLowerCase().includes(text);
      if (hit) found.push(item);
    }
    // What is to be seen of a hit is the box around it, too.
    for (const item of found) for (let i = item.id; i > 0; i = items[i].parent) state.hits.add(i);
  }
  byId("matches").textContent = text === "" ? "" : found.length === 0 ? "none" : plural(found.length, "match");
  byId("previous").hidden = byId("next").hidden = found.length === 0;
  drawMarks();
}

function step(by) {
  if (found.length === 0) return;
  at = at < 0 ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length;
  byId("matches").textContent = `${thousands(at + 1)} of ${thousands(found.length)}`;
  goTo(found[at]);
}

function setConstants(shown) {
  state.constants = shown;
  byId("constants").setAttribute("aria-pressed", String(shown));
}

// ---- Mouse and keys

const itemAt = (target) => {
  const group = target.closest("[data-item]");
  return group === null ? null : items[Number(group.dataset.item)];
};

const pointers = new Map();
let dragged = false;
svg.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
  dragged = false;
});
window.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (before === undefined) return;
  const dx = event.clientX - before.x, dy = event.clientY - before.y;
  if (!dragged && Math.hypot(dx, dy) < 4) return;
  dragged = moved = true;
  svg.classList.add("dragging");
  if (pointers.size === 2) {
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
    const bounds = svg.getBoundingClientRect();
    const was = Math.hypot(before.x - other.x, before.y - other.y), is = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    if (was > 0) zoom(is / was, other.x - bounds.x, other.y - bounds.y);
  } else {
    camera.x += dx;
    camera.y += dy;
    moveCamera();
  }
  pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
});
for (const end of ["pointerup", "pointercancel"]) {
  window.addEventListener(end, (event) => {
    pointers.delete(event.pointerId);
    svg.classList.remove("dragging");
  });
}
svg.addEventListener("click", (event) => {
  if (dragged) return;
  const button = event.target.closest("[data-toggle]");
  if (button !== null) return toggle(items[Number(button.dataset.toggle)]);
  select(itemAt(event.target));
});
svg.addEventListener("dblclick", (event) => {
  if (event.target.closest("[data-toggle]") !== null) return;
  const item = itemAt(event.target);
  if (item !== null) toggle(item);
});
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const bounds = svg.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)), event.clientX - bounds.x, event.clientY - bounds.y);
}, {passive: false});

byId("search").addEventListener("input", search);
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") {
    byId("search").value = "";
    search();
    svg.focus();
  }
});
const actions = {
  previous: () => step(-1),
  next: () => step(1),
  "open-level": () => {
    openLevel();
    draw();
    fit(0.5);
  },
  "close-all": () => {
    open.clear();
    open.add(0);
    draw();
    fit();
  },
  constants: () => {
    setConstants(!state.constants);
    draw();
    fit(0.5);
  },
  fold: foldSelected,
  "zoom-in": () => zoom(1.3),
  "zoom-out": () => zoom(1 / 1.3),
  fit: () => fit(),
};
for (const [id, act] of Object.entries(actions)) byId(id)?.addEventListener("click", act);

const moves = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]};
const keys = {o: "open-level", x: "close-all", c: "constants", f: "fold", "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", 0: "fit"};
onKeys(byId("search"), (event) => {
  const onBox = itemAt(event.target);
  if (event.key in keys) {
    actions[keys[event.key]]();
  } else if (event.key in moves) {
    camera.x += moves[event.key][0];
    camera.y += moves[event.key][1];
    moveCamera();
  } else if ((event.key === "Enter" || event.key === " ") && event.target.tagName !== "BUTTON") {
    const item = onBox ?? (state.selected > 0 ? items[state.selected] : null);
    if (item === null) return false;
    select(item);
    toggle(item);
  } else if (event.key === "Escape") {
    select(null);
  } else {
    return false;
  }
  return true;
});
// What has the focus has to be seen.
scene.addEventListener("focusin", (event) => {
  const item = itemAt(event.target), box = item && boxOfItem.get(item.id);
  if (!box || pointers.size > 0) return;
  const {width, height} = svg.getBoundingClientRect(), x = box.x * camera.scale + camera.x, y = box.y * camera.scale + camera.y;
  if (x < 0 || y < 0 || x + Math.min(box.width * camera.scale, width) > width || y + Math.min(box.height * camera.scale, height) > height) center(item);
});

// ---- The tip

function tellInTip(target, tip) {
  const {edge} = target;
  if (edge !== undefined) {
    add("b", {}, tip, `${pathOf(edge.from.item)} → ${pathOf(edge.to.item)}`);
    add("span", {class: "op"}, tip, edge.control ? "control" + (edge.count > 1 ? `, ${plural(edge.count, "edge")}` : "") : plural(edge.count, "edge"));
    return;
  }
  const item = itemAt(target), box = boxOfItem.get(item.id);
  add("b", {}, tip, pathOf(item));
  add("span", {class: "op"}, tip, item.node >= 0 ? opOf(item) : box.detail);
  if (item.node >= 0) {
    facts(data.nodes.attributes[item.node].slice(0, 8).map((number) => splitAttribute(data.attributes[number])).map(([name, text]) => [name, text.length > 80 ? text.slice(0, 80) + "…" : text]), tip);
  } else {
    facts(countOps(nodesIn(item)).slice(0, 6).map(([op, count]) => [op, thousands(count)]), tip);
  }
}
svg.addEventListener("pointermove", (event) => {
  const target = event.target.edge !== undefined ? event.target : event.target.closest("[data-item]");
  if (pointers.size > 0 || target === null || target.classList.contains("open")) return hideTip();
  showTip((tip) => tellInTip(target, tip), event.clientX, event.clientY);
});
svg.addEventListener("pointerleave", hideTip);
svg.addEventListener("pointerdown", hideTip);

// ---- Start

byId("title").textContent = data.title;
byId("about").textContent = [plural(itemOfNode.length, "node"), plural(numEdges, "edge"), plural(data.ops.length, "op"),
                             ...(data.functions.length > 0 ? [plural(data.functions.length, "function")] : [])].join(" · ");
startTheme();
// A graph of nothing else shows them.
setConstants(items[0].constants === items[0].nodes);
openWhatFits();
fit();
// A link may name a node: page.html#scope/node.
const named = decodeURIComponent(location.hash.slice(1));
const target = named === "" ? undefined : items.find((item) => item.id > 0 && pathOf(item) === named);
if (target !== undefined) {
  goTo(target);
} else {
  tell();
}
// Until the user moves it, it fits windows of other sizes, too.
new ResizeObserver(() => { if (!moved) fit(); }).observe(byId("stage"));
