// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What the page shows: the data, prepared for drawing and searching, and how values are written.

// ---- Events, as columns

const count = data.events.node.length;
const events = {
  node: Uint32Array.from(data.events.node),
  row: Uint32Array.from(data.events.row),
  start: Float64Array.from(data.events.start),
  took: Float64Array.from(data.events.took),
  end: Float64Array.from(data.events.start, (start, i) => start + data.events.took[i]),
};
const opOf = (event) => data.nodes.op[events.node[event]];
const nameOf = (event) => data.nodes.name[events.node[event]];
const opName = (event) => data.ops[opOf(event)];
const onPath = new Uint8Array(count);
for (const event of data.path.events) onPath[event] = 1;
const length = Math.max(data.length_ns, 1);

// The events of each row by their start. Within a row they do not overlap, so their ends rise, too. busy[i] is the
// time that the events before the i-th of the row take together.
const rows = data.rows.map((row) => ({...row, events: [], busy: null}));
for (let event = 0; event < count; ++event) rows[events.row[event]].events.push(event);
for (const row of rows) {
  row.events = Uint32Array.from(row.events);
  row.busy = new Float64Array(row.events.length + 1);
  row.events.forEach((event, i) => { row.busy[i + 1] = row.busy[i] + events.took[event]; });
}

// The first index of the row whose event ends after `ns`.
function firstEndingAfter(row, ns) {
  let low = 0, high = row.events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events.end[row.events[middle]] > ns) high = middle; else low = middle + 1;
  }
  return low;
}

// The first index of the row, from `low` on, whose event starts at `ns` or later.
function firstStartingAt(row, ns, low = 0) {
  let high = row.events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events.start[row.events[middle]] >= ns) high = middle; else low = middle + 1;
  }
  return low;
}

// ---- Texts

function duration(ns) {
  if (Math.abs(ns) < 1e3) return digits(ns) + " ns";
  if (Math.abs(ns) < 1e6) return digits(ns / 1e3) + " µs";
  if (Math.abs(ns) < 1e9) return digits(ns / 1e6) + " ms";
  return digits(ns / 1e9) + " s";
}

// A point in time, in the unit that fits `largest`, with the decimals that tell points `step` apart.
function moment(ns, step = 1, largest = ns) {
  const [unit, name] = largest >= 1e9 ? [1e9, "s"] : largest >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
  const places = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  return (ns / unit).toFixed(places) + " " + name;
}

const percent = (v) => (100 * v).toFixed(v > 0 && v < 0.001 ? 2 : 1) + " %";

// Short enough for a gutter: "/job:localhost/replica:0/task:0/device:CPU:0" is "CPU:0", and where several tasks took
// part "CPU:0  worker/1".
const taskOf = (device) => device.replace(/\/(device:|cpu:|gpu:).*$/i, "");
const tasks = new Set(data.devices.map(taskOf));
function deviceName(index) {
  const device = data.devices[index];
  const local = device.slice(taskOf(device).length).replace(/^\/(device:)?/, "") || device || "device";
  const task = device.match(/\/job:([^/]+).*\/task:(\d+)/);
  return tasks.size > 1 && task ? local + "  " + task[1] + "/" + task[2] : local;
}

// ---- Colours: one hue for each op, by rank of its time, so that the ops that matter differ most.

const rank = new Map(data.totals.map((t, i) => [t.op, i]));
const hues = data.ops.map((op) => (rank.get(op) * 137.508 + 208) % 360);
const paint = {};  // the colours of the theme
let colours = [];
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue("--" + name).trim();
  for (const name of ["page", "card", "ink", "soft", "line", "grid", "stripe", "path", "hit", "accent", "memory", "veil"]) {
    paint[name] = get(name);
  }
  colours = hues.map((hue) => `hsl(${hue.toFixed(0)} ${get("chroma")} ${get("lightness")})`);
}

// ---- The view and the selection, and the listeners of their changes

const view = {from: 0, to: length};
const state = {selected: -1, showPath: true, hits: null, hitCount: 0};
const watchers = {view: [], state: []};
const notify = (what) => { for (const watcher of watchers[what]) watcher(); };

function setView(from, to) {
  const span = Math.min(Math.max(to - from, 10), length * 1.05);
  const slack = span * 0.02;
  from = Math.max(-slack, Math.min(from, length + slack - span));
  view.from = from;
  view.to = from + span;
  notify("view");
}
const fit = () => setView(-length * 0.01, length * 1.01);

// Zooms by `factor` so that the point `at` (0 left, 1 right) stays where it is.
function zoom(factor, at = 0.5) {
  const span = view.to - view.from;
  const fixed = view.from + span * at;
  const next = Math.min(Math.max(span * factor, 10), length * 1.05);
  setView(fixed - next * at, fixed + next * (1 - at));
}

function select(event, bringIntoView = false) {
  state.selected = event;
  if (event >= 0 && bringIntoView) {
    const span = view.to - view.from;
    const took = events.took[event];
    if (events.start[event] < view.from || events.end[event] > view.to || took < span / 400) {
      const wanted = Math.min(Math.max(took * 12, 200), span);
      const middle = events.start[event] + took / 2;
      setView(middle - wanted / 2, middle + wanted / 2);
    }
    notify("reveal");
  }
  notify("state");
}
watchers.reveal = [];

function search(text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  state.hits = null;
  state.hitCount = 0;
  if (words.length > 0) {
    const matching = data.nodes.name.map((name, node) => {
      const both = (name + " " + data.ops[data.nodes.op[node]]).toLowerCase();
      return words.every((word) => both.includes(word));
    });
    state.hits = Uint8Array.from(events.node, (node) => matching[node] ? 1 : 0);
    for (const hit of state.hits) state.hitCount += hit;
  }
  notify("state");
}

// The facts of an event, for the tip and the details: [name, value] pairs.
function facts(event) {
  const list = [["took", duration(events.took[event])], ["started at", moment(events.start[event], Math.max(data.resolution_ns, 1))]];
  const waited = data.events.waited[event];
  if (waited > 0) list.push(["waited", duration(waited) + " from ready to start"]);
  const row = rows[events.row[event]];
  list.push(["where", deviceName(row.device) + ", " + row.name]);
  const shapes = data.shapes[data.events.shapes[event]];
  if (shapes) list.push(["outputs", shapes]);
  if (data.events.output[event] > 0) list.push(["output bytes", bytesText(data.events.output[event])]);
  if (data.events.requested[event] > 0) {
    list.push(["allocated", bytesText(data.events.requested[event]) + ", at most " + bytesText(data.events.peak[event]) + " at a time"]);
  }
  const inputs = data.nodes.inputs[events.node[event]];
  if (inputs) list.push(["inputs", inputs.length > 400 ? inputs.slice(0, 400) + "…" : inputs]);
  return list;
}

function factList(event) {
  const list = make("dl", {class: "facts"});
  for (const [name, value] of facts(event)) list.append(make("dt", {}, name), make("dd", {}, value));
  if (onPath[event]) list.append(make("dt", {}, ""), make("dd", {class: "on-path"}, "on the critical path"));
  return list;
}
