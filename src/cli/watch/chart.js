// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Drawings: curves of scalars, ridges of histograms.

const kLeft = 54, kRight = 12, kTop = 8, kBottom = 22;
const kMostTipRows = 24, kMostRidges = 36;

const runColor = (run) => `var(--run-${run.color})`;

// ---- Scales

// Round numbers from `low` to `high`, about as many as wanted.
function ticksOf(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && ticks.length < 50; ++i) ticks.push(i * step);
  return ticks;
}

function logTicksOf(low, high, wanted) {
  const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
  if (last - first < 1) return ticksOf(10 ** low, 10 ** high, wanted).filter((t) => t > 0).map(Math.log10);
  const stride = Math.max(1, Math.ceil((last - first) / wanted)), ticks = [];
  for (let e = first; e <= last; e += stride) ticks.push(e);
  return ticks;
}

// Times at whole seconds, minutes, hours, days.
function timeTicksOf(low, high, wanted) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const rough = (high - low) / Math.max(wanted, 1);
  if (rough < 1) return ticksOf(low, high, wanted);
  const step = steps.find((s) => s >= rough) ?? Math.ceil(rough / 604800) * 604800, ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high && ticks.length < 50; t += step) ticks.push(t);
  return ticks;
}

// "1.5M": a tick in little room.
function shortNumber(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e12)) return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return `${Number((value / (unit === "k" ? 1e3 : limit)).toPrecision(4))}${unit}`;
  }
  return String(Number(value.toPrecision(4)));
}

function axisText(x, axis, span) {
  if (axis === "step") return shortNumber(x);
  if (axis === "relative") return span < 120 ? `${Number(x.toPrecision(3))}s` : span < 7200 ? `${Math.round(x / 60)}m` : `${Number((x / 3600).toPrecision(3))}h`;
  const text = timeText(x);
  return span > 2 * 86400 ? text.slice(5, 10) : span > 600 ? text.slice(11, 16) : text.slice(11);
}

const rangeOf = (values) => {
  let low = Infinity, high = -Infinity;
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return [low, high];
};

function widened([low, high], share) {
  if (low > high) return [0, 1];
  const pad = low === high ? Math.max(Math.abs(low) * 0.1, 1e-9) : (high - low) * share;
  return [low - pad, high + pad];
}

// ---- Curves

// Moving average in which what came before has weight `weight`; the first values are not pulled towards 0.
function smooth(values, weight) {
  let last = 0, sum = 0;
  return values.map((v) => {
    if (!Number.isFinite(v)) return v;
    last = last * weight + (1 - weight) * v;
    sum = sum * weight + (1 - weight);
    return last / sum;
  });
}

const cutOff = (numbers) => {
  if (numbers.length < 20) return rangeOf(numbers);
  const sorted = Float64Array.from(numbers).sort();
  return [sorted[Math.floor(sorted.length * 0.05)], sorted[Math.ceil(sorted.length * 0.95) - 1]];
};

class CurveChart {
  // `curves`: [{run, points: {step, time, value}}]
  constructor(svg) {
    this.svg = svg;
    this.zoom = null;
    this.curves = [];
    svg.classList.add("plot");
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerleave", () => this.leave());
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      this.from = this.xAt(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointerup", (event) => this.endDrag(event));
    svg.addEventListener("dblclick", () => {
      this.zoom = null;
      this.draw(this.curves);
    });
  }

  prepare({run, points}) {
    const values = points.value.map(Number), first = Math.min(...points.time.slice(0, 1));
    const x = settings.axis === "step" ? points.step : settings.axis === "wall" ? points.time : points.time.map((t) => t - first);
    const smoothed = settings.smoothing > 0 ? smooth(values, settings.smoothing) : values;
    const y = (v) => settings.log ? (v > 0 ? Math.log10(v) : NaN) : v;
    return {run, points, values, smoothed, x, y: smoothed.map(y), raw: values.map(y)};
  }

  draw(curves) {
    this.curves = curves;
    const {svg} = this, width = svg.clientWidth || 340, height = svg.clientHeight || 210;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    this.lines = curves.map((curve) => this.prepare(curve));
    const isShown = (x) => this.zoom === null || (x >= this.zoom[0] && x <= this.zoom[1]);
    const xs = [], ys = [];
    for (const line of this.lines) {
      line.x.forEach((x, i) => {
        if (!isShown(x) || !Number.isFinite(x)) return;
        xs.push(x);
        for (const y of [line.y[i], line.raw[i]]) if (Number.isFinite(y)) ys.push(y);
      });
    }
    const [x0, x1] = this.zoom ?? widened(rangeOf(xs), 0.01), [y0, y1] = widened(settings.outliers ? cutOff(ys) : rangeOf(ys), 0.06);
    const right = width - kRight, bottom = height - kBottom;
    this.x = (x) => kLeft + (x - x0) / (x1 - x0) * (right - kLeft);
    this.y = (y) => bottom - (y - y0) / (y1 - y0) * (bottom - kTop);
    this.unX = (px) => x0 + (px - kLeft) / (right - kLeft) * (x1 - x0);
    this.size = {width, height, right, bottom};
    this.drawAxes(x0, x1, y0, y1);
    const id = `clip-${CurveChart.made++}`;
    const clip = addSvg("clipPath", {id}, svg);
    addSvg("rect", {x: kLeft, y: 0, width: Math.max(0, right - kLeft + 4), height: bottom + 2}, clip);
    const lines = addSvg("g", {"clip-path": `url(#${id})`}, svg);
    for (const line of this.lines) this.drawLine(line, lines);
    this.over = addSvg("g", {}, svg);
  }

  drawAxes(x0, x1, y0, y1) {
    const {svg, size: {height, right, bottom}} = this;
    for (const tick of (settings.log ? logTicksOf : ticksOf)(y0, y1, height / 45)) {
      const y = this.y(tick);
      addSvg("line", {class: "grid", x1: kLeft, x2: right, y1: y, y2: y}, svg);
      addSvg("text", {x: kLeft - 7, y: y + 4, "text-anchor": "end", class: "y-tick"}, svg, shortNumber(settings.log ? 10 ** tick : tick));
    }
    const makeTicks = settings.axis === "wall" ? timeTicksOf : ticksOf;
    for (const tick of makeTicks(x0, x1, (right - kLeft) / 85)) {
      const x = this.x(tick);
      addSvg("line", {class: "grid", x1: x, x2: x, y1: kTop, y2: bottom}, svg);
      addSvg("text", {x: Math.min(x, right - 8), y: height - 6, "text-anchor": "middle", class: "x-tick"}, svg, axisText(tick, settings.axis, x1 - x0));
    }
    addSvg("line", {class: "axis", x1: kLeft, x2: right, y1: bottom, y2: bottom}, svg);
  }

  drawLine(line, parent) {
    const color = `--run: ${runColor(line.run)}`;
    const pathOf = (ys) => {
      let path = "", pen = false;
      ys.forEach((y, i) => {
        const drawn = Number.isFinite(y) && Number.isFinite(line.x[i]);
        if (drawn) path += `${pen ? "L" : "M"}${this.x(line.x[i]).toFixed(1)} ${this.y(y).toFixed(1)}`;
        pen = drawn;
      });
      return path;
    };
    if (settings.smoothing > 0) addSvg("path", {class: "raw", style: color, d: pathOf(line.raw)}, parent);
    addSvg("path", {class: "curve", style: color, d: pathOf(line.y), "data-run": line.run.name}, parent);
    if (line.y.length === 1 && Number.isFinite(line.y[0])) addSvg("circle", {class: "dot", style: color, r: 3, cx: this.x(line.x[0]), cy: this.y(line.y[0])}, parent);
    // What is no number has its place at the foot.
    line.values.forEach((v, i) => {
      if (Number.isFinite(v)) return;
      const x = this.x(line.x[i]), y = this.size.bottom - 2;
      addSvg("title", {}, addSvg("path", {class: "hole", style: color, d: `M${x - 4} ${y}L${x} ${y - 7}L${x + 4} ${y}z`}, parent), String(v));
    });
  }

  xAt(event) {
    const bounds = this.svg.getBoundingClientRect();
    return Math.min(Math.max(event.clientX - bounds.left, kLeft), this.size.right);
  }

  // The points nearest to where the mouse is along the axis, the nearest line first.
  nearest(px, py) {
    const at = this.unX(px), rows = [];
    for (const line of this.lines) {
      let best = -1;
      line.x.forEach((x, i) => {
        if (best < 0 || Math.abs(x - at) < Math.abs(line.x[best] - at)) best = i;
      });
      if (best >= 0) rows.push({line, i: best, away: Number.isFinite(line.y[best]) ? Math.abs(this.y(line.y[best]) - py) : Infinity});
    }
    return rows.sort((a, b) => a.away - b.away);
  }

  move(event) {
    if (this.lines === undefined || this.over === undefined) return;
    const px = this.xAt(event), py = event.clientY - this.svg.getBoundingClientRect().top;
    const rows = this.nearest(px, py);
    this.over.replaceChildren();
    if (rows.length === 0) return;
    if (this.from !== undefined) addSvg("rect", {class: "range", x: Math.min(px, this.from), y: kTop, width: Math.abs(px - this.from), height: this.size.bottom - kTop}, this.over);
    const cross = this.x(rows[0].line.x[rows[0].i]);
    addSvg("line", {class: "cross", x1: cross, x2: cross, y1: kTop, y2: this.size.bottom}, this.over);
    for (const {line, i} of rows) {
      if (Number.isFinite(line.y[i])) addSvg("circle", {class: "dot", style: `--run: ${runColor(line.run)}`, r: 3.2, cx: this.x(line.x[i]), cy: this.y(line.y[i])}, this.over);
    }
    showTip((parent) => this.fillTip(rows, parent), event.clientX, event.clientY);
  }

  fillTip(rows, parent) {
    const table = add("table", {}, parent), head = add("tr", {}, table);
    const isSmoothed = settings.smoothing > 0;
    for (const title of ["", ...(isSmoothed ? ["smoothed"] : []), "value", "step", "after", "time"]) add("th", {}, head, title);
    rows.slice(0, kMostTipRows).forEach(({line, i}, row) => {
      const tr = add("tr", row === 0 ? {class: "near"} : {}, table);
      const name = add("td", {class: "name", style: `--run: ${runColor(line.run)}`}, tr);
      add("span", {class: "swatch"}, name);
      name.append(line.run.name);
      if (isSmoothed) add("td", {}, tr, numberText(line.smoothed[i]));
      for (const text of [numberText(line.values[i]), thousands(line.points.step[i]), durationText(line.points.time[i] - line.points.time[0]), timeText(line.points.time[i])]) {
        add("td", {}, tr, text);
      }
    });
    if (rows.length > kMostTipRows) add("td", {class: "name"}, add("tr", {}, table), `and ${rows.length - kMostTipRows} more`);
  }

  endDrag(event) {
    const from = this.from, to = this.xAt(event);
    this.from = undefined;
    if (from === undefined || Math.abs(to - from) < 6) return;
    this.zoom = [this.unX(Math.min(from, to)), this.unX(Math.max(from, to))];
    this.draw(this.curves);
  }

  leave() {
    this.over?.replaceChildren();
    hideTip();
  }
}
CurveChart.made = 0;

// ---- Ridges: one for each histogram, the oldest at the back

class RidgeChart {
  constructor(svg) {
    this.svg = svg;
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerleave", () => {
      for (const {path} of this.ridges ?? []) path.classList.remove("lit");
      hideTip();
    });
  }

  draw([{run, points}]) {
    const {svg} = this, width = svg.clientWidth || 340, height = svg.clientHeight || 210;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    this.ridges = [];
    const all = points.step.map((_, i) => i).sort((a, b) => points.step[a] - points.step[b]);
    const stride = Math.max(1, Math.ceil(all.length / kMostRidges));
    const shown = all.filter((_, i) => (all.length - 1 - i) % stride === 0);
    if (shown.length === 0) return;
    const left = 14, right = width - 46, bottom = height - kBottom;
    const [low, high] = [Math.min(...shown.map((i) => points.low[i])), Math.max(...shown.map((i) => points.high[i]))];
    const peak = shown.length === 1 ? bottom - kTop - 6 : Math.min(70, (bottom - kTop) * 0.34);
    const first = points.step[shown[0]], last = points.step[shown[shown.length - 1]];
    const x = (v) => left + (v - low) / (high - low) * (right - left);
    const base = (i) => last === first ? bottom : kTop + peak + (points.step[i] - first) / (last - first) * (bottom - kTop - peak);
    const densityOf = (i) => points.counts[i].map((c) => c * points.counts[i].length / (points.high[i] - points.low[i]));
    const densities = new Map(shown.map((i) => [i, densityOf(i)]));
    const densest = Math.max(...[...densities.values()].map((d) => Math.max(...d))) || 1;
    for (const tick of ticksOf(low, high, (right - left) / 80)) {
      addSvg("line", {class: "grid", x1: x(tick), x2: x(tick), y1: kTop, y2: bottom}, svg);
      addSvg("text", {x: x(tick), y: height - 6, "text-anchor": "middle", class: "x-tick"}, svg, shortNumber(tick));
    }
    for (const i of shown) {
      const y = base(i), density = densities.get(i), bin = (points.high[i] - points.low[i]) / density.length;
      let path = `M${x(points.low[i]).toFixed(1)} ${y.toFixed(1)}`;
      density.forEach((d, k) => { path += `L${x(points.low[i] + (k + 0.5) * bin).toFixed(1)} ${(y - d / densest * peak).toFixed(1)}`; });
      path += `L${x(points.high[i]).toFixed(1)} ${y.toFixed(1)}z`;
      const drawn = addSvg("path", {class: i === shown[shown.length - 1] ? "ridge newest" : "ridge", style: `--run: ${runColor(run)}`, d: path, "data-step": points.step[i]}, svg);
      this.ridges.push({i, y, path: drawn, bin});
    }
    const steps = last === first ? [first] : ticksOf(first, last, 4);
    for (const step of steps) {
      const y = last === first ? bottom : kTop + peak + (step - first) / (last - first) * (bottom - kTop - peak);
      addSvg("text", {x: right + 6, y: y + 4, class: "y-tick"}, svg, shortNumber(step));
    }
    this.points = points;
    this.unX = (px) => low + (px - left) / (right - left) * (high - low);
  }

  move(event) {
    if (!this.ridges?.length) return;
    const bounds = this.svg.getBoundingClientRect(), y = event.clientY - bounds.top, value = this.unX(event.clientX - bounds.left);
    const near = this.ridges.reduce((a, b) => Math.abs(a.y - y) <= Math.abs(b.y - y) ? a : b);
    for (const ridge of this.ridges) ridge.path.classList.toggle("lit", ridge === near);
    const {points} = this, {i, bin} = near, k = Math.floor((value - points.low[i]) / bin);
    showTip((parent) => {
      const table = add("table", {}, parent);
      const facts = [["step", thousands(points.step[i])], ["time", timeText(points.time[i])],
                     ["values", numberText(points.counts[i].reduce((a, b) => a + b, 0))], ["from", numberText(points.low[i])], ["to", numberText(points.high[i])]];
      if (k >= 0 && k < points.counts[i].length) facts.push([`near ${numberText(value)}`, numberText(points.counts[i][k])]);
      for (const [name, text] of facts) {
        const row = add("tr", {}, table);
        add("th", {}, row, name);
        add("td", {}, row, text);
      }
    }, event.clientX, event.clientY);
  }
}
