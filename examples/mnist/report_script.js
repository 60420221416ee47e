// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// ---- Small helpers

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function svg(tag, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

const whole = (n) => Number(n).toLocaleString("en-US");
const percent = (v, places = 2) => v === null ? "not a number" : (100 * v).toFixed(places) + " %";
const round = (v) => Math.round(v * 100) / 100;

// A number with about `digits` significant digits and no needless zeros.
function short(v, digits = 4) {
  if (v === null || v === undefined || Number.isNaN(v)) return "not a number";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e6 || size < 1e-4) return v.toExponential(Math.min(digits - 1, 2));
  return String(Number(v.toPrecision(size >= 1000 ? Math.max(digits, Math.ceil(Math.log10(size))) : digits)));
}

function duration(microseconds) {
  if (microseconds < 1000) return short(microseconds, 3) + " µs";
  if (microseconds < 1e6) return short(microseconds / 1e3, 3) + " ms";
  return short(microseconds / 1e6, 3) + " s";
}

// A row of buttons of which one is pressed. choices: [key, label] pairs.
function switcher(host, label, choices, chosen, onChange) {
  host.setAttribute("role", "group");
  host.setAttribute("aria-label", label);
  const press = (key) => {
    for (const button of host.children) button.setAttribute("aria-pressed", button.dataset.key === key);
  };
  for (const [key, text] of choices) {
    const button = make("button", {type: "button", "data-key": key}, text);
    button.onclick = () => { press(key); onChange(key); };
    host.append(button);
  }
  press(chosen);
  return press;
}

// Draws now and whenever the width of `host` changes.
function onWidth(host, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = host.clientWidth;
    if (now > 0 && now !== width) { width = now; draw(width); }
  }).observe(host);
}

// ---- Scales

// Round numbers that divide [low, high] into about `count` parts.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) result.push(i * step + 0);  // no -0
  return result;
}

function logTicks(low, high) {
  const result = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p) {
    for (const m of [1, 2, 5]) {
      const v = m * 10 ** p;
      if (v >= low && v <= high) result.push(v);
    }
  }
  return result.length > 9 ? result.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9) : result;
}

function scale(low, high, from, to, log = false) {
  const f = log ? Math.log : (v) => v;
  const a = f(low), b = f(high);
  const span = b - a || 1;
  return (v) => from + (f(v) - a) / span * (to - from);
}

// ---- Charts over the steps

const lastStep = Math.max(1, ...[data.train_loss, data.test_loss].map((c) => c.steps.at(-1) ?? 0));

// An SVG with axes; returns the scales and the group to draw in.
function frame(host, width, height, {yLow, yHigh, yTicks, yLabel, log = false, label, xTicks = 6, left = 52}) {
  const box = {left, right: width - 12, top: 10, bottom: height - 24};
  const x = scale(0, lastStep, box.left, box.right);
  const y = scale(yLow, yHigh, box.bottom, box.top, log);
  const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label});
  for (const v of yTicks) {
    root.append(svg("line", {class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v)}));
    root.append(svg("text", {x: box.left - 7, y: y(v) + 4, "text-anchor": "end"}, yLabel(v)));
  }
  for (const v of ticks(0, lastStep, xTicks)) {
    const anchor = v === 0 ? "start" : x(v) > box.right - 14 ? "end" : "middle";
    root.append(svg("text", {x: x(v), y: height - 7, "text-anchor": anchor}, whole(v)));
  }
  root.append(svg("line", {class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}));
  host.append(root);
  return {root, box, x, y};
}

// The path through (x, y) points; a missing or impossible y breaks it.
function line(xs, ys) {
  let path = "", pen = "M";
  ys.forEach((y, i) => {
    if (y === null || !Number.isFinite(y)) { pen = "M"; return; }
    path += `${pen}${round(xs[i])} ${round(y)}`;
    pen = "L";
  });
  return path;
}

// A running average without the pull towards zero at the start. Gaps stay gaps.
function smooth(values) {
  const keep = Math.max(0, 1 - 1 / Math.max(1, values.length * 0.015));
  let sum = 0, weight = 0;
  return values.map((v) => {
    if (v === null) return null;
    sum = keep * sum + (1 - keep) * v;
    weight = keep * weight + (1 - keep);
    return sum / weight;
  });
}

// The position in sorted `steps` that is nearest to `step`.
function nearest(steps, step) {
  let low = 0, high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1; else high = middle;
  }
  return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
}

// Calls onStep with the step under the pointer or moved to by the arrow keys, and with null when left.
function trackSteps(chart, steps, onStep) {
  const {root, box} = chart;
  let at = steps.length - 1;
  const stepAt = (event) => {
    const area = root.getBoundingClientRect();
    const share = (event.clientX - area.left - box.left) / (box.right - box.left);
    return Math.min(1, Math.max(0, share)) * lastStep;
  };
  root.addEventListener("pointermove", (event) => { at = nearest(steps, stepAt(event)); onStep(steps[at]); });
  root.addEventListener("pointerleave", () => onStep(null));
  root.addEventListener("blur", () => onStep(null));
  root.setAttribute("tabindex", "0");
  root.addEventListener("keydown", (event) => {
    const move = {ArrowLeft: -1, ArrowRight: 1, Home: -steps.length, End: steps.length}[event.key];
    if (!move) return;
    event.preventDefault();
    at = Math.min(steps.length - 1, Math.max(0, at + move));
    onStep(steps[at]);
  });
}

const curveCharts = [];  // both follow the same cursor

function curveChart(host, train, test, {label, format, domain}) {
  const readout = make("div", {class: "readout"});
  const canvas = make("div");
  host.append(readout, canvas);
  const smoothed = smooth(train.values);
  const steps = train.steps.length > 0 ? train.steps : test.steps;
  let mode, width = 0, cursor = null, chart = null;

  function show(step) {
    cursor?.remove();
    const wanted = step ?? lastStep;
    const part = (name, css, value) => [make("i", {class: css}), `${name} `, make("b", {}, value)];
    const items = [make("span", {}, step === null ? "at the end" : `step ${whole(step)}`)];
    cursor = svg("g");
    if (chart && step !== null) {
      cursor.append(svg("line", {class: "cursor", x1: chart.x(step), x2: chart.x(step), y1: chart.box.top, y2: chart.box.bottom}));
    }
    for (const [name, css, curve, values] of [["train", "train", train, smoothed], ["test", "test", test, test.values]]) {
      if (curve.steps.length === 0) continue;
      const i = nearest(curve.steps, wanted);
      items.push(make("span", {}, ...part(name, css, format(values[i]))));
      const y = chart && values[i] !== null ? chart.y(values[i]) : NaN;
      if (Number.isFinite(y) && step !== null && y <= chart.box.bottom && y >= chart.box.top) {
        cursor.append(svg("circle", {class: `dot ${css}`, cx: chart.x(curve.steps[i]), cy: y, r: 4}));
      }
    }
    readout.replaceChildren(...items);
    chart?.root.append(cursor);
  }

  function draw() {
    if (width === 0 || steps.length === 0) return;
    canvas.replaceChildren();
    chart = frame(canvas, width, 270, {label, ...domain(mode, smoothed)});
    const {box, x, y} = chart;
    const clip = "clip-" + host.id;
    const clipPath = svg("clipPath", {id: clip});
    clipPath.append(svg("rect", {x: box.left, y: box.top - 2, width: box.right - box.left, height: box.bottom - box.top + 3}));
    const inside = svg("g", {"clip-path": `url(#${clip})`});
    const path = (curve, values, css) =>
      inside.append(svg("path", {class: css, d: line(curve.steps.map(x), values.map((v) => v === null ? null : y(v)))}));
    path(train, train.values, "raw train");
    path(train, smoothed, "smooth train");
    path(test, test.values, "curve test");
    chart.root.append(clipPath, inside);
    trackSteps(chart, steps, (step) => curveCharts.forEach((c) => c.show(step)));
    show(null);
  }

  onWidth(canvas, (now) => { width = now; draw(); });
  curveCharts.push({show});
  return (newMode) => { mode = newMode; draw(); };
}

const finite = (values) => values.filter((v) => v !== null && Number.isFinite(v));

function lossDomain(mode, smoothed) {
  const all = finite([...data.train_loss.values, ...data.test_loss.values]);
  if (mode === "log") {
    const positive = all.filter((v) => v > 0).sort((a, b) => a - b);
    const core = finite([...smoothed, ...data.test_loss.values]).filter((v) => v > 0);
    const low = Math.min(positive[Math.floor(positive.length * 0.02)] ?? 0.01, ...core);
    const high = positive.at(-1) ?? 1;
    const bottom = Math.min(low, high / 10) / 1.15;
    return {yLow: bottom, yHigh: high * 1.1, yTicks: logTicks(bottom, high * 1.1), yLabel: (v) => short(v, 2), log: true};
  }
  const top = Math.max(1e-6, ...all) * 1.03;
  return {yLow: 0, yHigh: top, yTicks: ticks(0, top, 5), yLabel: (v) => short(v, 3)};
}

function accuracyDomain(mode) {
  const label = (low) => (v) => percent(v, low > 0.9 ? 1 : 0);
  if (mode === "all") return {yLow: 0, yHigh: 1, yTicks: ticks(0, 1, 5), yLabel: label(0)};
  const tested = finite(data.test_accuracy.values).sort((a, b) => a - b);
  const usual = tested[Math.floor(tested.length * 0.12)] ?? 0;
  const low = Math.max(0, Math.min(1 - (1 - usual) * 1.4, 0.98));
  return {yLow: low, yHigh: 1, yTicks: ticks(low, 1, 5), yLabel: label(low)};
}

function learningCurves() {
  const loss = curveChart(byId("loss"), data.train_loss, data.test_loss,
    {label: "Loss on training batches and on the test set over the steps", format: (v) => short(v, 3), domain: lossDomain});
  const accuracy = curveChart(byId("accuracy"), data.train_accuracy, data.test_accuracy,
    {label: "Accuracy on training batches and on the test set over the steps", format: (v) => percent(v), domain: accuracyDomain});
  loss("log");
  accuracy("top");
  switcher(byId("loss-scale"), "Scale of the loss", [["log", "log"], ["linear", "linear"]], "log", loss);
  switcher(byId("accuracy-scale"), "Range of the accuracy", [["top", "top"], ["all", "0–100 %"]], "top", accuracy);
}

// ---- Test digits and confusions

const total = data.confusion.flat().reduce((a, b) => a + b, 0);
const correct = data.confusion.reduce((sum, row, i) => sum + row[i], 0);
let pressFilter = () => {}, selectedCell = null;

function digitTile(digit, position) {
  const [index, label, predicted, confidence] = digit;
  const columns = data.sprite_columns, rows = Math.ceil(data.digits.length / columns);
  const column = position % columns, row = Math.floor(position / columns);
  const image = make("span", {class: "image"});
  image.style.backgroundSize = `${columns * 100}% ${rows * 100}%`;
  image.style.backgroundPosition =
    `${100 * column / Math.max(1, columns - 1)}% ${100 * row / Math.max(1, rows - 1)}%`;
  const wrong = label !== predicted;
  const caption = wrong ? make("span", {}, `${label} `, make("em", {}, `→ ${predicted}`)) : make("span", {}, label);
  const said = `test digit ${whole(index)}: is ${label}, read as ${predicted} (${percent(confidence, 1)} sure)`;
  return make("div", {class: wrong ? "digit wrong" : "digit", role: "img", title: said, "aria-label": said}, image, caption);
}

// Shows the digits that `accept` takes, `limit` at first. existing: how many there are in the whole test set.
function showDigits(what, existing, accept) {
  const chosen = data.digits.map((digit, i) => [digit, i]).filter(([digit]) => accept(digit));
  const rows = () => 8 * getComputedStyle(byId("digits")).gridTemplateColumns.split(" ").length;
  let limit = rows();
  const draw = () => {
    byId("digits").replaceChildren(...chosen.slice(0, limit).map(([digit, i]) => digitTile(digit, i)));
    const shown = Math.min(limit, chosen.length);
    byId("digit-count").textContent =
      existing === 0 ? `no ${what}` : shown === existing ? `${whole(existing)} ${what}` : `${whole(shown)} of ${whole(existing)} ${what}`;
    byId("digits-more").hidden = shown >= chosen.length;
  };
  byId("digits-more").onclick = () => { limit += 2 * rows(); draw(); };
  draw();
}

function selectCell(cell) {
  selectedCell?.setAttribute("aria-pressed", "false");
  selectedCell = cell;
  selectedCell?.setAttribute("aria-pressed", "true");
}

function filterDigits(key) {
  selectCell(null);
  if (key === "wrong") showDigits("read wrong", total - correct, ([, label, read]) => label !== read);
  if (key === "right") showDigits("read right", correct, ([, label, read]) => label === read);
  if (key === "all") showDigits("test digits", total, () => true);
}

function confusionCell(label, predicted, count, most) {
  if (count === 0) return make("td", {class: "none"}, "·");
  const right = label === predicted;
  const strength = right ? 0.30 : 0.10 + 0.65 * Math.sqrt(count / most);
  const button = make("button", {type: "button", "aria-pressed": "false",
    "aria-label": `${count} times a ${label} was read as ${predicted}`}, whole(count));
  button.style.setProperty("--cell", `rgba(var(--${right ? "band" : "error"}), ${strength.toFixed(3)})`);
  button.onclick = () => {
    pressFilter("");
    selectCell(button);
    showDigits(right ? `of ${label} read right` : `of ${label} read as ${predicted}`, count,
      ([, l, p]) => l === label && p === predicted);
  };
  return make("td", {}, button);
}

function confusions() {
  const most = Math.max(1, ...data.confusion.flatMap((row, i) => row.filter((_, k) => k !== i)));
  const classes = data.confusion.map((_, i) => i);
  const head = make("tr", {}, make("th", {scope: "col", "aria-label": "digit"}, ""),
    ...classes.map((k) => make("th", {scope: "col"}, k)), make("th", {scope: "col", title: "share of this digit that is read right"}, "right %"));
  const rows = data.confusion.map((row, i) => {
    const sum = row.reduce((a, b) => a + b, 0);
    return make("tr", {}, make("th", {scope: "row"}, i), ...row.map((n, k) => confusionCell(i, k, n, most)),
      make("th", {}, sum > 0 ? (100 * row[i] / sum).toFixed(1) : "–"));
  });
  byId("confusion").append(make("thead", {}, head), make("tbody", {}, ...rows));
}

function testDigits() {
  const press = switcher(byId("digit-filter"), "Which digits",
    [["wrong", `wrong (${whole(total - correct)})`], ["right", "right"], ["all", "all"]], "wrong", filterDigits);
  pressFilter = press;
  filterDigits("wrong");
  confusions();
}

// ---- Distributions of the parameters

const bandPairs = [[0, 8, 0.13], [1, 7, 0.2], [2, 6, 0.28], [3, 5, 0.4]];

function parameterChart(parameter) {
  const bounds = parameter.bounds;
  const name = parameter.name;
  const shape = parameter.shape.length > 0 ? parameter.shape.join(" × ") : "scalar";
  const host = make("div", {class: "chart"});
  const readout = make("div", {class: "readout"});
  const note = make("small", {}, shape);
  const caption = make("figcaption", {}, make("span", {}, name), note);
  const figure = make("figure", {}, caption, readout, host);
  const bad = Math.max(0, ...parameter.not_finite);
  if (bad > 0) figure.append(make("p", {class: "warn"}, `up to ${whole(bad)} values are not finite`));
  const values = finite(bounds.flat());
  let low = Math.min(...values), high = Math.max(...values);
  if (values.length === 0) { low = -1; high = 1; }
  const margin = (high - low) * 0.05 || Math.abs(high) * 0.1 || 0.1;

  const say = (i) => {
    const b = bounds[i] ?? [];
    readout.replaceChildren(make("span", {}, "median ", make("b", {}, short(b[4], 3))),
      make("span", {}, `${short(b[0], 3)} to ${short(b[8], 3)}`));
  };
  onWidth(host, (width) => {
    host.replaceChildren();
    const chart = frame(host, width, 168, {yLow: low - margin, yHigh: high + margin, left: 46, xTicks: 3,
      yTicks: ticks(low - margin, high + margin, 4), yLabel: (v) => short(v, 3), label: `Distribution of ${name} over the steps`});
    const xs = parameter.steps.map(chart.x);
    const known = bounds.map((b, i) => i).filter((i) => bounds[i][4] !== null);
    for (const [a, b, opacity] of bandPairs) {
      const there = known.map((i) => `${round(xs[i])} ${round(chart.y(bounds[i][a]))}`);
      const back = known.map((i) => `${round(xs[i])} ${round(chart.y(bounds[i][b]))}`).reverse();
      if (known.length > 0) chart.root.append(svg("path", {class: "band", opacity, d: `M${[...there, ...back].join("L")}Z`}));
    }
    chart.root.append(svg("path", {class: "median", d: line(xs, bounds.map((b) => b[4] === null ? null : chart.y(b[4])))}));
    const cursor = svg("line", {class: "cursor", y1: chart.box.top, y2: chart.box.bottom, visibility: "hidden"});
    chart.root.append(cursor);
    trackSteps(chart, parameter.steps, (step) => {
      cursor.setAttribute("visibility", step === null ? "hidden" : "visible");
      if (step !== null) for (const end of ["x1", "x2"]) cursor.setAttribute(end, chart.x(step));
      note.textContent = step === null ? shape : `step ${whole(step)}`;
      say(step === null ? bounds.length - 1 : nearest(parameter.steps, step));
    });
    say(bounds.length - 1);
  });
  return figure;
}

function parameters() {
  byId("band-key").textContent = data.parameters.length > 0
    ? "The line is the median. Bands, from dark to light, hold 38 %, 68 %, 86 % and all of the values."
    : "No parameter was recorded.";
  byId("parameters").append(...data.parameters.map(parameterChart));
}

// ---- Step times

function stepTimes() {
  const times = data.step_times;
  const caption = byId("time-caption");
  if (times.count === 0) { caption.textContent = "No step was timed."; return; }
  caption.append(`${whole(times.count)} steps: median ${duration(times.median)}, 99th percentile ${duration(times.p99)} `,
    make("small", {}, `fastest ${duration(times.minimum)}, slowest ${duration(times.maximum)}` +
      (times.slower > 0 ? `; ${whole(times.slower)} slower than shown` : "")));
  const host = byId("times");
  onWidth(host, (width) => {
    host.replaceChildren();
    const height = 200, box = {left: 52, right: width - 12, top: 22, bottom: height - 24};
    const low = times.edges[0], high = times.edges.at(-1), most = Math.max(...times.bins);
    const x = scale(low, high, box.left, box.right, true), y = scale(0, most, box.bottom, box.top);
    const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "How many steps took how long"});
    for (const v of ticks(0, most, 4)) {
      root.append(svg("line", {class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v)}));
      root.append(svg("text", {x: box.left - 7, y: y(v) + 4, "text-anchor": "end"}, whole(v)));
    }
    times.bins.forEach((count, i) => {
      const left = x(times.edges[i]), right = x(times.edges[i + 1]);
      const bar = svg("rect", {class: "histogram", x: left + 0.5, width: Math.max(0.5, right - left - 1), y: y(count), height: box.bottom - y(count)});
      bar.append(svg("title", {}, `${duration(times.edges[i])} to ${duration(times.edges[i + 1])}: ${whole(count)} steps`));
      root.append(bar);
    });
    const labels = high / low > 3 ? logTicks(low, high) : ticks(low, high, 6);
    for (const v of labels) root.append(svg("text", {x: x(v), y: height - 7, "text-anchor": "middle"}, duration(v)));
    for (const [name, v] of [["median", times.median], ["99 %", times.p99]]) {
      if (v > high) continue;
      root.append(svg("line", {class: "marker", x1: x(v), x2: x(v), y1: box.top - 6, y2: box.bottom}));
      root.append(svg("text", {class: "mark", x: x(v) + 4, y: box.top - 4, "text-anchor": x(v) > box.right - 50 ? "end" : "start"}, name));
    }
    root.append(svg("line", {class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}));
    host.append(root);
  });
}

// ---- Header

function header() {
  byId("model").textContent = data.model;
  byId("run").textContent = `${data.data.charAt(0).toUpperCase()}${data.data.slice(1)}. ${whole(data.steps)} steps of ${whole(data.batch)} digits, seed ${data.seed}, ` +
    `${data.threads} thread${data.threads === 1 ? "" : "s"}.`;
  const figures = [["test accuracy", percent(data.final_accuracy)], ["test loss", short(data.final_loss, 3)]];
  if (total > 0) figures.push(["wrong digits", whole(total - correct)]);
  figures.push(["training time", duration(data.seconds * 1e6)]);
  if (data.step_times.count > 0) figures.push(["median step", duration(data.step_times.median)]);
  byId("figures").append(...figures.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

header();
learningCurves();
testDigits();
parameters();
stepTimes();
})();
