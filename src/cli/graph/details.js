// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What the page tells about the chosen item, search, and what mouse and keys do.

const panel = document.getElementById("details");
const byId = (id) => document.getElementById(id);

function html(name, attributes, parent, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent?.appendChild(made);
  return made;
}

function facts(pairs, parent) {
  const list = html("dl", {class: "facts"}, parent);
  for (const [key, value] of pairs) {
    html("dt", {}, list, key);
    html("dd", {}, list, value);
  }
}

const kMostLinks = 60;

// Nodes at the other end of edges, as buttons that lead there.
function links(title, numbers, end, parent) {
  if (numbers.length === 0) return;
  html("h3", {}, parent, `${title} (${thousands(numbers.length)})`);
  const list = html("ul", {class: "links"}, parent);
  for (const e of numbers.slice(0, kMostLinks)) {
    const node = data.edges[4 * e + end], output = data.edges[4 * e + 2];
    const line = html("li", {}, list);
    html("span", {class: "slot"}, line, output < 0 ? "^" : String(end === 0 ? data.edges[4 * e + 3] : output));
    const button = html("button", {type: "button"}, line, data.nodes.name[node] + (end === 0 && output > 0 ? ":" + output : ""));
    button.addEventListener("click", () => goTo(items[itemOfNode[node]]));
  }
  if (numbers.length > kMostLinks) html("li", {}, list, "…");
}

function tellNode(item) {
  html("p", {class: "kind"}, panel, opOf(item));
  const device = data.devices[data.nodes.device[item.node]];
  const pairs = device === "" ? [] : [["device", device]];
  for (const number of data.nodes.attributes[item.node]) {
    const text = data.attributes[number], colon = text.indexOf(": ");
    pairs.push([text.slice(0, colon), text.slice(colon + 2)]);
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

function opTable(nodes, parent) {
  const counts = new Map();
  for (const node of nodes) {
    const op = data.ops[data.nodes.op[node]];
    counts.set(op, (counts.get(op) ?? 0) + 1);
  }
  html("h3", {}, parent, `Ops (${counts.size})`);
  const table = html("table", {class: "bars"}, parent);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  for (const [op, count] of sorted.slice(0, 30)) {
    const row = html("tr", {}, table);
    const button = html("button", {type: "button"}, html("td", {}, row), op);
    button.addEventListener("click", () => {
      byId("search").value = "op:" + op;
      search();
    });
    html("td", {}, row, thousands(count));
  }
  if (sorted.length > 30) html("td", {}, html("tr", {}, table), "…");
}

function tellScope(item) {
  html("p", {class: "kind"}, panel, item.id === 0 ? "the whole graph" : item.kind === kGroup ? "group, made to keep the drawing small" : "scope");
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
  html("h2", {}, panel, item.id === 0 ? data.title : pathOf(item));
  if (item.node >= 0) {
    tellNode(item);
  } else {
    tellScope(item);
  }
  panel.scrollTop = 0;
}

function select(item) {
  state.selected = item === null ? -1 : item.id;
  drawMarks();
  tell();
}

function goTo(item) {
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
  byId("matches").textContent = text === "" ? "" : found.length === 0 ? "none" : plural(found.length, "match").replace("matchs", "matches");
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
  dragged = true;
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
    if (openLevel(kMostBoxes)) draw(), fit(0.3);
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
  },
  "zoom-in": () => zoom(1.3),
  "zoom-out": () => zoom(1 / 1.3),
  fit: () => fit(),
  theme: () => setTheme({system: "light", light: "dark", dark: "system"}[theme]),
};
for (const [id, act] of Object.entries(actions)) byId(id).addEventListener("click", act);

const moves = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]};
document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {o: "open-level", x: "close-all", c: "constants", "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", "0": "fit"};
  if (event.key === "/") {
    byId("search").focus();
  } else if (event.key in keys) {
    actions[keys[event.key]]();
  } else if (event.key in moves) {
    camera.x += moves[event.key][0];
    camera.y += moves[event.key][1];
    moveCamera();
  } else if (event.key === "Enter" && state.selected > 0 && event.target.tagName !== "BUTTON") {
    toggle(items[state.selected]);
  } else if (event.key === "Escape") {
    select(null);
  } else {
    return;
  }
  event.preventDefault();
});

let theme = "system";
const system = window.matchMedia("(prefers-color-scheme: dark)");
function setTheme(next) {
  theme = next;
  const dark = theme === "dark" || (theme === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = {system: "Auto", light: "Light", dark: "Dark"}[theme];
}
system.addEventListener("change", () => setTheme(theme));
setTheme("system");

byId("about").textContent = [plural(itemOfNode.length, "node"), plural(numEdges, "edge"), plural(data.ops.length, "op"),
                             ...(data.functions.length > 0 ? [plural(data.functions.length, "function")] : [])].join(" · ");

// Opened as far as it stays easy to take in.
draw();
for (let before = 0; boxes.length < kOpenAtFirst && boxes.length > before;) {
  before = boxes.length;
  if (openLevel(kOpenAtFirst)) draw();
}
// A link may name a node: page.html#scope/node.
const named = decodeURIComponent(location.hash.slice(1));
const target = named === "" ? undefined : items.find((item) => item.id > 0 && pathOf(item) === named);
fit(0.75);
if (target !== undefined) {
  goTo(target);
} else {
  tell();
}
window.addEventListener("resize", () => moveCamera());
