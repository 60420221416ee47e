// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A card for each tag: it has its series, requests their points while it is visible, and shows them.

// ---- Points, requested together

const known = new Map();  // by id: points as the source gave them, with their version
const wanted = new Map();  // by id: the cards that wait
let flushing = false;

async function flush() {
  flushing = true;
  while (wanted.size > 0) {
    const waiting = new Map(wanted), ids = [...waiting.keys()];
    wanted.clear();
    let all = {};
    try {
      all = await source.series(ids);
    } catch {
      // The next update requests them again.
    }
    for (const [id, points] of Object.entries(all)) known.set(Number(id), points);
    for (const card of new Set([...waiting.values()].flatMap((cards) => [...cards]))) card.show();
  }
  flushing = false;
}

function want(series, card) {
  if (!wanted.has(series.id)) wanted.set(series.id, new Set());
  wanted.get(series.id).add(card);
  if (!flushing) {
    flushing = true;
    queueMicrotask(flush);
  }
}

const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    entry.target.card.visible = entry.isIntersecting;
    if (entry.isIntersecting) entry.target.card.refresh();
  }
}, {rootMargin: "200px"});
const resized = new ResizeObserver((entries) => {
  for (const entry of entries) entry.target.card.resize();
});

// ---- Cards

class Card {
  constructor(label, tag) {
    this.element = add("article", {class: "card", "data-tag": tag});
    this.element.card = this;
    this.heading = add("h3", {}, this.element);
    add("span", {}, this.heading, label);
    this.visible = false;
    this.drawn = "";
    inView.observe(this.element);
  }

  // `series`: those of the index that are to be shown, each with its run.
  set(series) {
    this.series = series;
    const description = series.find((s) => s.description)?.description;
    if (description) this.heading.title = description;
    if (this.visible) this.refresh();
  }

  refresh() {
    const stale = this.series.filter((s) => known.get(s.id)?.version !== s.version);
    if (stale.length === 0) return this.show();
    // The existing content stays visible until then.
    if (this.series.some((s) => known.has(s.id))) this.show();
    for (const s of stale) want(s, this);
  }

  // Draws anew only where something is new.
  show() {
    const shown = this.series.filter((s) => known.has(s.id));
    const state = shown.map((s) => `${s.id}:${known.get(s.id).version}:${s.run.color}`).join();
    if (!this.element.isConnected || state === this.drawn) return;
    this.drawn = state;
    this.fill(shown.map((s) => ({run: s.run, points: known.get(s.id)})));
  }

  resize() {}

  addRun(run) {
    this.element.style.setProperty("--run", runColor(run));
    add("span", {class: "of"}, this.element, run.name);
  }
}

class ChartCard extends Card {
  constructor(label, tag, run, Chart) {
    super(label, tag);
    if (run !== null) this.addRun(run);
    const widen = add("button", {type: "button", class: "widen", title: "As wide as the page, and back", "aria-label": `Widen ${tag}`}, this.element, "⤢");
    widen.addEventListener("click", () => this.element.classList.toggle("wide"));
    this.svg = addSvg("svg", {role: "img", "aria-label": tag}, this.element);
    this.chart = new Chart(this.svg);
    this.data = [];
    resized.observe(this.element);
  }

  fill(data) {
    this.data = data;
    this.width = this.element.clientWidth;
    this.chart.draw(data);
  }

  resize() {
    if (this.data.length > 0 && (this.element.clientWidth !== this.width || this.svg.clientHeight !== this.height)) {
      this.height = this.svg.clientHeight;
      this.fill(this.data);
    }
  }
}

// Of the points kept, one at a time: the newest, until the slider was moved.
class MediaCard extends Card {
  constructor(label, tag, run, kind) {
    super(label, tag);
    this.addRun(run);
    const box = add("div", {class: "media"}, this.element);
    this.media = kind === "images" ? add("img", {alt: tag}, box) : add("audio", {controls: "", preload: "none"}, box);
    this.slider = add("input", {type: "range", min: 0, max: 0, value: 0, "aria-label": `Step of ${tag}`}, box);
    this.at = add("span", {class: "at"}, box);
    this.follows = true;
    this.slider.addEventListener("input", () => {
      this.follows = this.slider.value === this.slider.max;
      this.showPoint();
    });
    if (kind === "images") {
      this.media.addEventListener("load", () => {
        this.media.classList.toggle("small", this.media.naturalWidth < 160 && this.media.naturalHeight < 160);
        this.tell();
      });
    }
  }

  fill([first]) {
    if (first === undefined) return;
    const last = first.points.step.length - 1, was = this.points?.step[Number(this.slider.value)];
    this.points = first.points;
    this.slider.max = Math.max(last, 0);
    this.slider.hidden = last < 1;
    const place = this.points.step.indexOf(was);
    this.slider.value = this.follows || place < 0 ? last : place;
    this.showPoint();
  }

  showPoint() {
    const i = Number(this.slider.value);
    if (i >= this.points.step.length) return;
    if (this.media.getAttribute("src") !== this.points.source[i]) this.media.src = this.points.source[i];
    this.tell();
  }

  tell() {
    const i = Number(this.slider.value), {naturalWidth, naturalHeight} = this.media;
    const size = naturalWidth > 0 ? ` · ${naturalWidth} × ${naturalHeight}` : "";
    this.at.textContent = `step ${thousands(this.points.step[i])} · ${timeText(this.points.time[i])}${size} · ${bytesText(this.points.bytes[i])}`;
  }
}

class TextCard extends Card {
  constructor(label, tag, run) {
    super(label, tag);
    this.addRun(run);
    this.box = add("div", {class: "text", tabindex: 0}, this.element);
  }

  fill([first]) {
    this.box.replaceChildren();
    if (first === undefined) return;
    for (let i = first.points.step.length - 1; i >= 0; --i) {
      add("p", {class: "at"}, this.box, `step ${thousands(first.points.step[i])} · ${timeText(first.points.time[i])}`);
      add("pre", {}, this.box, first.points.text[i]);
    }
  }
}

function makeCard(kind, label, tag, run) {
  switch (kind) {
    case "scalars":
      return new ChartCard(label, tag, null, CurveChart);
    case "histograms":
      return new ChartCard(label, tag, run, RidgeChart);
    case "text":
      return new TextCard(label, tag, run);
    default:
      return new MediaCard(label, tag, run, kind);
  }
}
