// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The canvases: the whole step above, the events in view, and memory below on the same time axis.

const kGutter = 168, kAxis = 26, kRow = 22, kBar = 17, kDevice = 24, kMemory = 92;

// ---- Layout: a heading for each device, a line for each row

const lines = [];  // {top, height, device} or {top, height, row}
let contentHeight = kAxis;
{
  let device = -1;
  for (const row of rows) {
    if (row.device !== device) {
      device = row.device;
      lines.push({top: contentHeight, height: kDevice, device});
      contentHeight += kDevice;
    }
    row.top = contentHeight;
    lines.push({top: contentHeight, height: kRow, row});
    contentHeight += kRow;
  }
  contentHeight += 6;
}
let scroll = 0;  // of the rows, when they do not fit
let stageWidth = 0, stageHeight = 0;

function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
  context.textBaseline = "middle";
  return context;
}

const plotWidth = () => Math.max(stageWidth - kGutter, 1);
const xOf = (ns) => kGutter + (ns - view.from) / (view.to - view.from) * plotWidth();
const nsAt = (x) => view.from + (x - kGutter) / plotWidth() * (view.to - view.from);

// Round numbers that divide [low, high] into about `wanted` parts.
function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const result = [];
  for (let i = Math.ceil(low / step); i * step <= high; ++i) result.push(i * step);
  return {step, at: result};
}

function drawAxis(c, height) {
  const {step, at} = ticks(Math.max(view.from, 0), view.to, plotWidth() / 110);
  c.textAlign = "center";
  for (const ns of at) {
    const x = Math.round(xOf(ns)) + 0.5;
    c.strokeStyle = paint.grid;
    c.beginPath();
    c.moveTo(x, kAxis);
    c.lineTo(x, height);
    c.stroke();
    c.fillStyle = paint.soft;
    const text = moment(ns, step, view.to), half = c.measureText(text).width / 2;
    c.fillText(text, Math.min(Math.max(x, kGutter + half + 4), stageWidth - half - 4), kAxis / 2);
  }
}

// ---- One row of events

// Where bars are narrower than this they are drawn by the pixel: how busy the row was there, and with what.
const kNarrow = 1.5;

function drawRow(c, row, y) {
  const nsPerPixel = (view.to - view.from) / plotWidth();
  const top = y + (kRow - kBar) / 2;
  const dim = state.hits !== null;
  let i = firstEndingAfter(row, view.from);
  while (i < row.events.length) {
    const event = row.events[i];
    if (events.start[event] >= view.to) break;
    const x = xOf(events.start[event]), width = events.took[event] / nsPerPixel;
    if (width >= kNarrow) {
      drawBar(c, event, x, width, top, dim);
      ++i;
      continue;
    }
    const pixel = Math.floor(Math.max(x, kGutter));
    let next = Math.max(firstStartingAt(row, nsAt(pixel + 1), i), i + 1);
    // Only the last that starts in a pixel can be wide, and then it is drawn as a bar of its own.
    if (next - i > 1 && events.took[row.events[next - 1]] / nsPerPixel >= kNarrow) --next;
    drawPixel(c, row, i, next, pixel, top, nsPerPixel, dim);
    i = next;
  }
}

function drawBar(c, event, x, width, top, dim) {
  const left = Math.max(x, kGutter), right = Math.min(x + width, stageWidth);
  const w = Math.max(right - left - (width > 4 ? 0.6 : 0), 1);
  const path = state.showPath && onPath[event];
  c.globalAlpha = dim && !state.hits[event] ? 0.22 : 1;
  c.fillStyle = colours[opOf(event)];
  c.fillRect(left, top, w, kBar);
  if (w > 26) {
    c.save();
    c.beginPath();
    c.rect(left, top, w - 3, kBar);
    c.clip();
    c.fillStyle = paint.ink;
    c.textAlign = "left";
    const op = opName(event), name = nameOf(event);
    c.fillText(w > 120 && name !== op ? op + "  " + name : op, left + 5, top + kBar / 2 + 0.5);
    c.restore();
  }
  c.globalAlpha = 1;
  if (path) {
    c.fillStyle = paint.path;
    c.fillRect(left, top + kBar - 1, w, 3);
  }
  if (dim && state.hits[event]) outline(c, left, top, w, paint.hit, 2);
  if (event === state.selected) outline(c, left, top, w, paint.ink, 2);
}

function outline(c, left, top, width, colour, line) {
  c.strokeStyle = colour;
  c.lineWidth = line;
  c.strokeRect(left + line / 2, top + line / 2, Math.max(width - line, 0.5), kBar - line);
  c.lineWidth = 1;
}

// The events [i, next) of a row, which fall into one pixel.
function drawPixel(c, row, i, next, pixel, top, nsPerPixel, dim) {
  const busy = Math.min(1, (row.busy[next] - row.busy[i]) / nsPerPixel);
  let longest = row.events[i], path = false, hit = false, selected = false;
  for (let k = i; k < next; ++k) {
    const event = row.events[k];
    if (events.took[event] > events.took[longest]) longest = event;
    path = path || onPath[event] === 1;
    hit = hit || (dim && state.hits[event] === 1);
  }
  if (state.selected >= 0 && events.row[state.selected] === events.row[row.events[i]]) {
    selected = events.start[state.selected] >= events.start[row.events[i]] &&
               events.start[state.selected] <= events.start[row.events[next - 1]];
  }
  c.globalAlpha = (dim && !hit ? 0.22 : 1) * (0.35 + 0.65 * busy);
  c.fillStyle = colours[opOf(longest)];
  c.fillRect(pixel, top, 1.2, kBar);
  c.globalAlpha = 1;
  if (path && state.showPath) { c.fillStyle = paint.path; c.fillRect(pixel, top + kBar - 1, 1.2, 3); }
  if (hit) { c.fillStyle = paint.hit; c.fillRect(pixel - 0.5, top, 2, kBar); }
  if (selected) { c.fillStyle = paint.ink; c.fillRect(pixel - 0.5, top - 2, 2, kBar + 4); }
}

// Lines from each event of the critical path to the next. Those that would not be seen are left out.
function drawPathLinks(c) {
  const path = data.path.events;
  c.strokeStyle = paint.path;
  c.globalAlpha = 0.75;
  c.beginPath();
  let lastX = -1, lastRow = -1;
  for (let k = 1; k < path.length; ++k) {
    const a = path[k - 1], b = path[k];
    if (events.start[b] < view.from || events.end[a] > view.to || events.row[a] === events.row[b]) continue;
    const x1 = xOf(events.end[a]), x2 = xOf(events.start[b]);
    if (Math.abs(x2 - lastX) < 1 && events.row[b] === lastRow) continue;
    lastX = x2;
    lastRow = events.row[b];
    const y1 = rows[events.row[a]].top + kRow / 2 - scroll, y2 = rows[events.row[b]].top + kRow / 2 - scroll;
    c.moveTo(x1, y1);
    c.bezierCurveTo(x1 + 6, y1, x2 - 6, y2, x2, y2);
  }
  c.stroke();
  c.globalAlpha = 1;
}

function ellipsis(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && c.measureText(text.slice(0, n) + "…").width > width) --n;
  return text.slice(0, n) + "…";
}

function drawGutter(c, height) {
  c.fillStyle = paint.card;
  c.fillRect(0, 0, kGutter, height);
  c.textAlign = "left";
  for (const line of lines) {
    const y = line.top - scroll;
    if (y + line.height < kAxis || y > height) continue;
    const isDevice = line.row === undefined;
    if (!isDevice && line.row.part > 0) continue;
    c.font = (isDevice ? "600 " : "") + c.font.replace(/^(600|bold) /, "");
    c.fillStyle = isDevice ? paint.ink : paint.soft;
    const text = isDevice ? deviceName(line.device) : line.row.name;
    c.fillText(ellipsis(c, text, kGutter - (isDevice ? 20 : 32)), isDevice ? 12 : 24, y + line.height / 2);
    c.font = c.font.replace(/^(600|bold) /, "");
  }
  c.fillStyle = paint.card;
  c.fillRect(0, 0, kGutter, kAxis);
  c.strokeStyle = paint.line;
  c.beginPath();
  c.moveTo(kGutter - 0.5, 0);
  c.lineTo(kGutter - 0.5, height);
  c.moveTo(0, kAxis - 0.5);
  c.lineTo(stageWidth, kAxis - 0.5);
  c.stroke();
}

let range = null;  // [x, x] while a range is being chosen

function drawStage() {
  const c = prepare(byId("canvas"), stageWidth, stageHeight);
  c.fillStyle = paint.card;
  c.fillRect(0, 0, stageWidth, stageHeight);
  for (const line of lines) {
    const y = line.top - scroll;
    if (y + line.height < kAxis || y > stageHeight) continue;
    if (line.row === undefined) { c.fillStyle = paint.stripe; c.fillRect(0, y, stageWidth, line.height); }
  }
  drawAxis(c, stageHeight);
  c.save();
  c.beginPath();
  c.rect(kGutter, kAxis, plotWidth(), stageHeight - kAxis);
  c.clip();
  for (const line of lines) {
    const y = line.top - scroll;
    if (line.row !== undefined && y + line.height >= kAxis && y <= stageHeight) drawRow(c, line.row, y);
  }
  if (state.showPath) drawPathLinks(c);
  if (range !== null) {
    c.fillStyle = paint.accent;
    c.globalAlpha = 0.2;
    c.fillRect(Math.min(...range), kAxis, Math.abs(range[1] - range[0]), stageHeight);
    c.globalAlpha = 1;
  }
  c.restore();
  drawGutter(c, stageHeight);
  if (range !== null) {
    const [a, b] = range.map(nsAt);
    c.fillStyle = paint.ink;
    c.textAlign = "center";
    c.fillText(duration(Math.abs(b - a)), (range[0] + range[1]) / 2, kAxis + 10);
  }
}

// ---- Memory: steps, in pixels that stand for many by their highest and lowest

function valueAt(curve, ns) {
  let low = 0, high = curve.ns.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.ns[middle] <= ns) low = middle + 1; else high = middle;
  }
  return low - 1;
}

function drawMemory() {
  const canvas = byId("memory");
  if (data.memory.length === 0) return;
  canvas.hidden = false;
  const c = prepare(canvas, stageWidth, kMemory * data.memory.length);
  data.memory.forEach((curve, k) => drawCurve(c, curve, k * kMemory));
}

function drawCurve(c, curve, top) {
  const highest = curve.bytes.reduce((a, b) => Math.max(a, b), 1);
  const lowest = curve.bytes.reduce((a, b) => Math.min(a, b), curve.origin.startsWith("bytes in use") ? highest : 0);
  const flat = highest - lowest < 1 ? lowest - 1 : lowest;
  const yOf = (v) => top + kMemory - 12 - (v - flat) / (highest - flat) * (kMemory - 26);
  c.fillStyle = paint.memory;
  const bottom = yOf(flat);
  for (let x = kGutter; x < stageWidth; ++x) {
    const from = valueAt(curve, nsAt(x)), to = valueAt(curve, nsAt(x + 1));
    if (to < 0 || nsAt(x) > length) continue;
    let high = curve.bytes[Math.max(from, 0)];
    for (let i = Math.max(from, 0); i <= to; ++i) high = Math.max(high, curve.bytes[i]);
    const y = yOf(high);
    c.globalAlpha = 0.28;
    c.fillRect(x, y, 1, bottom - y);
    c.globalAlpha = 1;
    c.fillRect(x, y - 0.75, 1, 1.5);
  }
  const peakX = xOf(curve.peak_ns);
  if (peakX >= kGutter && peakX <= stageWidth) {
    c.fillStyle = paint.path;
    c.beginPath();
    c.arc(peakX, yOf(curve.peak_bytes), 3, 0, 7);
    c.fill();
  }
  c.fillStyle = paint.card;
  c.fillRect(0, top, kGutter, kMemory);
  c.textAlign = "left";
  c.fillStyle = paint.ink;
  c.fillText("Memory", 12, top + 16);
  c.fillStyle = paint.soft;
  const device = data.devices.findIndex((d) => curve.name.startsWith(d + ": "));
  const name = device < 0 ? curve.name : deviceName(device) + ", " + curve.name.slice(data.devices[device].length + 2);
  [name, "peak " + bytesText(curve.peak_bytes), curve.origin].forEach((text, i) => {
    c.fillText(ellipsis(c, text, kGutter - 20), 12, top + 34 + 16 * i);
  });
  c.strokeStyle = paint.line;
  c.strokeRect(kGutter - 0.5, top - 0.5, stageWidth, kMemory);
}

// ---- The whole step

const kBins = 1200;
let bins = null;
function overviewBins() {
  const busy = new Float64Array(kBins), path = new Float64Array(kBins);
  const spread = (into, from, to) => {
    const first = Math.min(kBins - 1, Math.floor(from / length * kBins)), last = Math.min(kBins - 1, Math.floor(to / length * kBins));
    for (let b = first; b <= last; ++b) {
      into[b] += Math.max(0, Math.min(to, (b + 1) * length / kBins) - Math.max(from, b * length / kBins)) * kBins / length;
    }
  };
  for (let e = 0; e < count; ++e) spread(busy, events.start[e], events.end[e]);
  for (const e of data.path.events) spread(path, events.start[e], events.end[e]);
  return {busy, path, most: busy.reduce((a, b) => Math.max(a, b), 1)};
}

function drawOverview() {
  const canvas = byId("overview"), height = 44;
  const c = prepare(canvas, stageWidth, height);
  bins = bins || overviewBins();
  const width = plotWidth(), wide = width / kBins;
  c.fillStyle = paint.soft;
  for (let b = 0; b < kBins; ++b) {
    const h = bins.busy[b] / bins.most * (height - 10);
    c.globalAlpha = 0.6;
    c.fillRect(kGutter + b * wide, height - 4 - h, wide + 0.3, h);
    if (state.showPath && bins.path[b] > 0) {
      c.fillStyle = paint.path;
      c.globalAlpha = Math.min(1, 0.3 + bins.path[b]);
      c.fillRect(kGutter + b * wide, height - 3, wide + 0.3, 3);
      c.fillStyle = paint.soft;
    }
  }
  c.globalAlpha = 1;
  const left = kGutter + Math.max(0, view.from / length) * width, right = kGutter + Math.min(1, view.to / length) * width;
  c.fillStyle = paint.veil;
  c.fillRect(kGutter, 0, left - kGutter, height);
  c.fillRect(right, 0, kGutter + width - right, height);
  c.strokeStyle = paint.accent;
  c.lineWidth = 1.5;
  c.strokeRect(left, 1, Math.max(right - left, 2), height - 2);
  c.fillStyle = paint.soft;
  c.textAlign = "left";
  c.fillText("in view", 12, 14);
  c.fillStyle = paint.ink;
  c.fillText(duration(Math.min(view.to, length) - Math.max(view.from, 0)) + " of " + duration(length), 12, 30);
}

// ---- Drawing when something has changed, once per frame

let pending = false;
function draw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    drawStage();
    drawMemory();
    drawOverview();
  });
}

function resize() {
  stageWidth = byId("stage").clientWidth;
  stageHeight = Math.max(120, Math.min(contentHeight, Math.round(window.innerHeight * 0.62)));
  setScroll(scroll);
  draw();
}

function setScroll(value) { scroll = Math.max(0, Math.min(value, contentHeight - stageHeight)); }

function reveal() {
  if (state.selected < 0) return;
  const top = rows[events.row[state.selected]].top;
  if (top - scroll < kAxis) setScroll(top - kAxis - kDevice);
  if (top + kRow - scroll > stageHeight) setScroll(top + kRow - stageHeight + 6);
}

function eventAt(x, y) {
  if (x < kGutter || y < kAxis) return -1;
  const line = lines.find((l) => y + scroll >= l.top && y + scroll < l.top + l.height);
  if (line === undefined || line.row === undefined) return -1;
  const reach = 2 * (view.to - view.from) / plotWidth();  // a narrow bar may be missed by two pixels
  const row = line.row, ns = nsAt(x);
  let best = -1, distance = reach;
  for (let i = Math.max(0, firstEndingAfter(row, ns - reach)); i < row.events.length; ++i) {
    const event = row.events[i];
    if (events.start[event] > ns + reach) break;
    const off = Math.max(events.start[event] - ns, ns - events.end[event], 0);
    if (off < distance || (off === 0 && best < 0)) { best = event; distance = off; }
    if (off === 0) break;
  }
  return best;
}

function showEventTip(event, x, y) {
  if (event < 0) return hideTip();
  showTip((tip) => tip.append(make("b", {}, nameOf(event)), make("span", {class: "op"}, opName(event)), factList(event)), x, y);
}

function showMemoryTip(e) {
  const curve = data.memory[Math.floor(e.offsetY / kMemory)];
  const at = curve === undefined || e.offsetX < kGutter ? -1 : valueAt(curve, nsAt(e.offsetX));
  if (at < 0) return hideTip();
  const when = moment(nsAt(e.offsetX), (view.to - view.from) / 1000);
  showTip((tip) => tip.append(make("b", {}, bytesText(curve.bytes[at])), make("span", {class: "op"}, "at " + when)), e.clientX, e.clientY);
}

// ---- Mouse, touch and keys

function attachStage() {
  const canvas = byId("canvas");
  let drag = null;
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 30 : 1, span = view.to - view.from;
    const sideways = e.shiftKey ? e.deltaX || e.deltaY : e.deltaX;
    if (Math.abs(sideways) > Math.abs(e.deltaY) || e.shiftKey) {
      const shift = sideways * unit / plotWidth() * span;
      setView(view.from + shift, view.to + shift);
    } else {
      zoom(Math.exp(e.deltaY * unit * 0.002), Math.max(0, (e.offsetX - kGutter) / plotWidth()));
    }
  }, {passive: false});
  canvas.addEventListener("pointerdown", (e) => {
    if (e.button !== 0) return;
    canvas.setPointerCapture(e.pointerId);
    drag = {x: e.offsetX, y: e.offsetY, from: view.from, to: view.to, scroll, moved: false, chooses: e.shiftKey};
  });
  canvas.addEventListener("pointermove", (e) => {
    if (drag === null) {
      showEventTip(eventAt(e.offsetX, e.offsetY), e.clientX, e.clientY);
      return;
    }
    const dx = e.offsetX - drag.x, dy = e.offsetY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    hideTip();
    canvas.classList.add("dragging");
    if (drag.chooses) {
      range = [Math.max(drag.x, kGutter), Math.max(e.offsetX, kGutter)];
      draw();
      return;
    }
    const shift = -dx / plotWidth() * (drag.to - drag.from);
    setScroll(drag.scroll - dy);
    setView(drag.from + shift, drag.to + shift);
  });
  const release = (e) => {
    if (drag === null) return;
    canvas.classList.remove("dragging");
    if (!drag.moved && e.type === "pointerup") select(eventAt(e.offsetX, e.offsetY));
    if (range !== null) {
      const [a, b] = range.map(nsAt);
      range = null;
      setView(Math.min(a, b), Math.max(a, b));
    }
    drag = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", (e) => {
    const event = eventAt(e.offsetX, e.offsetY);
    if (event >= 0) setView(events.start[event] - events.took[event] * 0.1 - 5, events.end[event] + events.took[event] * 0.1 + 5);
  });
  const memory = byId("memory");
  memory.addEventListener("pointermove", showMemoryTip);
  memory.addEventListener("pointerleave", hideTip);
}

function attachOverview() {
  const overview = byId("overview");
  let grabbed = null;
  const at = (e) => (e.offsetX - kGutter) / plotWidth() * length;
  overview.addEventListener("pointerdown", (e) => {
    overview.setPointerCapture(e.pointerId);
    const ns = at(e), span = view.to - view.from;
    if (ns < view.from || ns > view.to) setView(ns - span / 2, ns + span / 2);
    grabbed = ns - view.from;
  });
  overview.addEventListener("pointermove", (e) => {
    if (grabbed === null) return;
    const span = view.to - view.from;
    setView(at(e) - grabbed, at(e) - grabbed + span);
  });
  overview.addEventListener("pointerup", () => { grabbed = null; });
  overview.addEventListener("pointercancel", () => { grabbed = null; });
}

function attachKeys() {
  const pan = (share) => { const shift = (view.to - view.from) * share; setView(view.from + shift, view.to + shift); };
  const keys = {
    "ArrowLeft": () => pan(-0.15), "a": () => pan(-0.15), "ArrowRight": () => pan(0.15), "d": () => pan(0.15),
    "+": () => zoom(0.7), "=": () => zoom(0.7), "w": () => zoom(0.7), "-": () => zoom(1 / 0.7), "s": () => zoom(1 / 0.7),
    "ArrowUp": () => { setScroll(scroll - kRow); draw(); }, "ArrowDown": () => { setScroll(scroll + kRow); draw(); },
    "0": fit, "Escape": () => select(-1), "c": () => byId("path-toggle").click(),
  };
  onKeys(byId("search"), (e) => {
    const onCanvas = e.target === byId("canvas") || e.target === document.body;
    if (!(e.key in keys) || (!onCanvas && e.key !== "Escape")) return false;
    if (e.target === document.body && (e.key === "ArrowUp" || e.key === "ArrowDown")) return false;  // scrolls the page
    keys[e.key]();
    return true;
  });
}

watchers.view.push(draw);
watchers.state.push(draw);
watchers.reveal.push(reveal);
attachStage();
attachOverview();
attachKeys();
