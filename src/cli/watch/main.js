// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The state of the page: runs, tabs, filters, settings, and the groups of cards that follow from it.

const kTabs = [["scalars", "Scalars"], ["histograms", "Histograms"], ["images", "Images"], ["audio", "Audio"], ["text", "Text"], ["graphs", "Graphs"]];
const kColors = 10, kMostCards = 40, kMostOpenGroups = 12;

let index = {runs: [], series: [], notes: []};
let tab = null;
const runs = new Map();  // by id
const hidden = new Set();  // names of runs
const colors = new Map();  // by the name of the run
const cards = new Map();  // by kind, tag and run
const groups = new Map();  // by tab and prefix

const byName = (a, b) => a.localeCompare(b, "en", {numeric: true});

// ---- Filters

// An invalid expression is marked, and its text is searched for literally.
function matcher(input) {
  const text = input.value.trim();
  input.setAttribute("aria-invalid", "false");
  if (text === "") return () => true;
  try {
    const pattern = new RegExp(text, "i");
    return (name) => pattern.test(name);
  } catch {
    input.setAttribute("aria-invalid", "true");
    return (name) => name.toLowerCase().includes(text.toLowerCase());
  }
}

const isShown = (run) => !hidden.has(run.name) && matcher(byId("run-filter"))(run.name);

// ---- Runs

function takeRuns() {
  runs.clear();
  for (const run of [...index.runs].sort((a, b) => byName(a.name, b.name))) {
    if (!colors.has(run.name)) colors.set(run.name, colors.size % kColors);
    runs.set(run.id, {...run, color: colors.get(run.name)});
  }
}

function drawRuns() {
  const list = byId("runs"), matches = matcher(byId("run-filter"));
  list.replaceChildren();
  for (const run of runs.values()) {
    if (!matches(run.name)) continue;
    const label = add("label", {style: `--run: ${runColor(run)}`, title: run.name}, add("li", {}, list));
    const box = add("input", {type: "checkbox"}, label);
    box.checked = !hidden.has(run.name);
    add("span", {class: "swatch"}, label);
    add("bdi", {}, add("span", {class: "name"}, label), run.name);
    add("span", {class: "step", title: `${plural(run.events, "event")}${run.restarts > 1 ? `, ${run.restarts} starts` : ""}`}, label, shortNumber(run.last_step));
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(run.name);
      else hidden.add(run.name);
      layOut();
    });
    // With Alt the run alone.
    label.addEventListener("click", (event) => {
      if (!event.altKey) return;
      event.preventDefault();
      hidden.clear();
      for (const other of runs.values()) if (other.name !== run.name) hidden.add(other.name);
      drawRuns();
      layOut();
    });
  }
}

// ---- Tabs

const hasTab = (name) => name === "graphs" ? index.runs.some((run) => run.graph > 0) : index.series.some((s) => s.kind === name && s.seen > 0);

function drawTabs() {
  const asked = location.hash.slice(1);
  if (tab === null && hasTab(asked)) tab = asked;
  const first = kTabs.find(([name]) => hasTab(name))?.[0] ?? "scalars";
  const shown = tab !== null && hasTab(tab) ? tab : first;
  const bar = byId("tabs");
  bar.replaceChildren();
  for (const [name, title] of kTabs) {
    if (!hasTab(name)) continue;
    const count = name === "graphs" ? index.runs.filter((run) => run.graph > 0).length : new Set(index.series.filter((s) => s.kind === name && s.seen > 0).map((s) => s.tag)).size;
    const button = add("button", {type: "button", role: "tab", "aria-selected": String(name === shown), "data-tab": name}, bar, title);
    add("small", {}, button, thousands(count));
    button.addEventListener("click", () => {
      tab = name;
      hideTip();
      history.replaceState(null, "", `#${name}`);
      drawTabs();
      layOut();
    });
  }
  return shown;
}

const shownTab = () => byId("tabs").querySelector("[aria-selected=true]")?.dataset.tab ?? "scalars";

// ---- Groups of cards

const prefixOf = (tag) => tag.includes("/") ? tag.slice(0, tag.indexOf("/")) : "";

// Series by prefix, and in that by card: scalars of one tag share a card, all else has one for each run.
function arrange(kind) {
  const matches = matcher(byId("tag-filter")), byPrefix = new Map(), shown = new Set([...runs.values()].filter(isShown).map((run) => run.id));
  let tags = new Set(), all = new Set();
  for (const s of index.series) {
    if (s.kind !== kind || s.seen === 0) continue;
    all.add(s.tag);
    if (!shown.has(s.run) || !matches(s.tag)) continue;
    tags.add(s.tag);
    const prefix = prefixOf(s.tag), run = runs.get(s.run);
    const key = kind === "scalars" ? `${kind}\n${s.tag}` : `${kind}\n${s.tag}\n${run.name}`;
    if (!byPrefix.has(prefix)) byPrefix.set(prefix, new Map());
    const of = byPrefix.get(prefix);
    if (!of.has(key)) of.set(key, {key, tag: s.tag, run, series: []});
    of.get(key).series.push({...s, run});
  }
  byId("tags-shown").textContent = tags.size === all.size ? plural(all.size, "tag") : `${thousands(tags.size)} of ${plural(all.size, "tag")}`;
  return [...byPrefix].sort((a, b) => byName(a[0], b[0])).map(([prefix, of]) => [prefix, [...of.values()].sort((a, b) => byName(a.tag, b.tag) || byName(a.run.name, b.run.name))]);
}

function groupOf(kind, prefix, isOpen) {
  const key = `${kind}\n${prefix}`;
  if (!groups.has(key)) {
    const element = add("details", {class: "prefix"});
    element.open = isOpen;
    const summary = add("summary", {}, element, prefix === "" ? "Without a prefix" : prefix);
    const group = {element, count: add("small", {}, summary), box: add("div", {class: "cards"}, element), most: kMostCards};
    group.more = add("button", {type: "button", class: "more"}, element, "Show more");
    group.more.addEventListener("click", () => {
      group.most += 2 * kMostCards;
      layOut();
    });
    groups.set(key, group);
  }
  return groups.get(key);
}

// Puts `elements` into `parent` and moves none that has its place.
function place(elements, parent) {
  elements.forEach((element, i) => {
    if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] ?? null);
  });
  while (parent.children.length > elements.length) parent.lastChild.remove();
}

function layOut() {
  const kind = shownTab(), isGraph = kind === "graphs";
  byId("graphs").hidden = !isGraph;
  byId("groups").hidden = byId("tools").hidden = isGraph;
  byId("curve-settings").hidden = kind !== "scalars";
  const visible = [...runs.values()].filter(isShown).length;
  byId("runs-shown").textContent = visible === runs.size ? thousands(runs.size) : `${thousands(visible)} of ${thousands(runs.size)}`;
  byId("empty").hidden = true;
  if (isGraph) return showGraphs();
  const arranged = arrange(kind);
  place(arranged.map(([prefix, entries], i) => {
    const group = groupOf(kind, prefix, i < kMostOpenGroups);
    group.count.textContent = thousands(entries.length);
    group.element.classList.toggle("one", entries.length === 1);
    group.more.hidden = entries.length <= group.most;
    place(entries.slice(0, group.most).map((entry) => {
      if (!cards.has(entry.key)) {
        const label = prefix === "" ? entry.tag : entry.tag.slice(prefix.length + 1);
        cards.set(entry.key, makeCard(kind, label, entry.tag, entry.run));
      }
      const card = cards.get(entry.key);
      card.set(entry.series);
      return card.element;
    }), group.box);
    return group.element;
  }), byId("groups"));
  // Those that have come into the page only now were not drawn yet.
  for (const card of cards.values()) if (card.visible && card.element.isConnected) card.refresh();
  if (arranged.length === 0) {
    byId("empty").hidden = false;
    byId("empty").textContent = index.series.length > 0 ? "Nothing fits the filters." : pageInfo.live ? "There is nothing yet. What is written will appear here." : "The files hold nothing that can be shown here.";
  }
}

// What is out of sight is drawn when it comes into it.
function redraw() {
  for (const card of cards.values()) {
    card.drawn = "";
    if (card.visible) card.show();
  }
}

// ---- Graphs

let graphShown = "";
function showGraphs() {
  const select = byId("graph-run"), chosen = select.value, having = [...runs.values()].filter((run) => run.graph > 0);
  select.replaceChildren();
  for (const run of having) add("option", {value: run.id}, select, run.name);
  if (having.some((run) => String(run.id) === chosen)) select.value = chosen;
  const run = runs.get(Number(select.value));
  if (run === undefined) return;
  const key = `${run.id}:${run.graph}`;
  if (key !== graphShown) source.showGraph(byId("graph"), run);
  graphShown = key;
}
byId("graph-run").addEventListener("change", showGraphs);
byId("graph").addEventListener("load", () => {
  themeOfGraph();
  // Parts that this page shows itself.
  for (const part of byId("graph").contentDocument?.querySelectorAll("h1, footer, #theme") ?? []) part.hidden = true;
});

// ---- News

function tellState(isLost) {
  const about = byId("about"), {runs: all, bytes, bytes_read: read} = index;
  const events = all.reduce((sum, run) => sum + run.events, 0), last = Math.max(0, ...all.map((run) => run.last_time));
  const parts = [plural(all.length, "run"), plural(events, "event")];
  if (isLost) parts.unshift("the server does not answer");
  else if (read < bytes) parts.unshift(`reading, ${Math.floor(100 * read / bytes)} %`);
  else if (pageInfo.live) parts.unshift("live");
  if (last > 0) parts.push(`last event ${timeText(last)}`);
  about.textContent = parts.join(" · ");
  about.className = isLost ? "lost" : pageInfo.live ? "live" : "";
  const notes = byId("notes");
  notes.hidden = index.notes.length === 0;
  notes.querySelector("summary").textContent = plural(index.notes.length, "note");
  notes.querySelector("ul").replaceChildren(...index.notes.map((note) => add("li", {}, null, note)));
}

let runsDrawn = "";
function onIndex(news) {
  if (news !== null) {
    index = news;
    takeRuns();
    const runsNow = JSON.stringify(index.runs.map((run) => [run.id, run.name, run.last_step]));
    if (runsNow !== runsDrawn) drawRuns();
    runsDrawn = runsNow;
    drawTabs();
    layOut();
  }
  tellState(false);
}

// ---- Settings

// The graph's page has a theme of its own.
function themeOfGraph() {
  const inner = byId("graph").contentDocument?.documentElement;
  if (inner) inner.dataset.theme = isDark() ? "dark" : "light";
}
themeWatchers.push(themeOfGraph);

function showSettings() {
  byId("smoothing").value = settings.smoothing;
  byId("smoothing-value").textContent = Number(settings.smoothing).toFixed(2);
  byId("log").checked = settings.log;
  byId("outliers").checked = settings.outliers;
  for (const button of byId("axis").children) button.setAttribute("aria-pressed", String(button.dataset.axis === settings.axis));
}

function change(name, value) {
  settings[name] = value;
  keepSettings();
  showSettings();
  if (name === "axis") for (const card of cards.values()) if (card.chart) card.chart.zoom = null;
  redraw();
}

byId("smoothing").addEventListener("input", (event) => change("smoothing", Number(event.target.value)));
byId("log").addEventListener("change", (event) => change("log", event.target.checked));
byId("outliers").addEventListener("change", (event) => change("outliers", event.target.checked));
for (const button of byId("axis").children) button.addEventListener("click", () => change("axis", button.dataset.axis));
byId("tag-filter").addEventListener("input", layOut);
byId("run-filter").addEventListener("input", () => {
  drawRuns();
  layOut();
});
byId("all-runs").addEventListener("click", () => {
  hidden.clear();
  drawRuns();
  layOut();
});
byId("no-runs").addEventListener("click", () => {
  for (const run of runs.values()) hidden.add(run.name);
  drawRuns();
  layOut();
});
onKeys(byId("tag-filter"), () => false);

byId("title").textContent = pageInfo.title;
startTheme();
showSettings();
source.index(onIndex, () => tellState(true));
