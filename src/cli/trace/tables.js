// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Everything but the canvases: figures, search, tables, details, theme.

// ---- Head

{
  byId("title").textContent = data.source;
  const threads = new Set(rows.map((row) => row.device + "/" + row.thread)).size;
  byId("about").textContent = plural(count, "event") + " of " + plural(data.nodes_count, "node") + " on " +
      plural(data.devices.length, "device") + " and " + plural(threads, "thread") +
      (data.resolution_ns > 1 ? "; times to the microsecond" : "");
  const work = data.totals.reduce((sum, t) => sum + t.total_ns, 0);
  const figures = [["step", duration(data.length_ns), ""], ["work of all threads", duration(work), (work / length).toFixed(2) + "× the step"],
                   ["critical path", duration(data.path.busy_ns), percent(data.path.busy_ns / length) + " of the step"]];
  const peak = data.memory.reduce((most, curve) => Math.max(most, curve.peak_bytes), 0);
  if (peak > 0) figures.push(["peak memory", bytesText(peak), data.memory[0].origin.startsWith("estimate") ? "estimated" : ""]);
  for (const [name, value, note] of figures) {
    const dd = make("dd", {}, value);
    if (note) dd.append(" ", make("small", {}, note));
    byId("figures").append(make("div", {}, make("dt", {}, name), dd));
  }
}

// ---- Toolbar and search

byId("fit").onclick = fit;
byId("zoom-in").onclick = () => zoom(0.5);
byId("zoom-out").onclick = () => zoom(2);
byId("path-toggle").onclick = () => {
  state.showPath = !state.showPath;
  byId("path-toggle").setAttribute("aria-pressed", state.showPath);
  notify("state");
};

function goToHit(step) {
  if (state.hitCount === 0) return;
  let event = state.selected;
  if (event < 0) event = step > 0 ? -1 : count;
  do { event = (event + step + count) % count; } while (!state.hits[event]);
  select(event, true);
}
byId("search").addEventListener("input", () => search(byId("search").value));
byId("search").addEventListener("keydown", (e) => {
  if (e.key === "Enter") goToHit(e.shiftKey ? -1 : 1);
  if (e.key === "Escape") { byId("search").value = ""; search(""); byId("canvas").focus(); }
});
byId("next").onclick = () => goToHit(1);
byId("previous").onclick = () => goToHit(-1);
watchers.state.push(() => {
  byId("matches").textContent = state.hits === null ? "" : plural(state.hitCount, "event");
  byId("next").hidden = byId("previous").hidden = state.hitCount === 0;
});

// ---- Details

function showDetails() {
  const host = byId("details"), event = state.selected;
  if (event < 0) {
    host.replaceChildren(make("h2", {}, "Critical path"),
        make("p", {class: "op"}, thousands(data.path.events.length) + " events, " + duration(data.path.busy_ns) + ", found from the " + data.path.origin + "." +
            (data.events_in_graph > 0 && data.events_in_graph < count ? " " + thousands(count - data.events_in_graph) + " events are in no graph." : "")),
        make("p", {class: "op"}, data.path.by_time_only ? "" : "However many threads there are, the step takes at least as long as this chain."),
        make("p", {class: "op"}, "Choose an event to see more about it."));
    return;
  }
  const runs = [];
  for (let e = 0; e < count; ++e) if (events.node[e] === events.node[event]) runs.push(e);
  host.replaceChildren(make("h2", {}, nameOf(event)), make("p", {class: "op"}, opName(event)), factList(event));
  if (runs.length > 1) {
    const at = runs.indexOf(event);
    const back = make("button", {type: "button", "aria-label": "Previous run"}, "‹"), on = make("button", {type: "button", "aria-label": "Next run"}, "›");
    back.onclick = () => select(runs[(at + runs.length - 1) % runs.length], true);
    on.onclick = () => select(runs[(at + 1) % runs.length], true);
    host.append(make("div", {class: "runs"}, back, "run " + thousands(at + 1) + " of " + thousands(runs.length), on));
  }
}
watchers.state.push(showDetails);

// ---- Tables

// The totals of the events that `key` puts together; those of the whole step are the ones that came with the data.
function totalsBy(key, inView) {
  const groups = new Map();
  let all = 0;
  for (let e = 0; e < count; ++e) {
    let took = events.took[e];
    if (inView) {
      if (events.end[e] < view.from || events.start[e] > view.to) continue;
      took = Math.min(events.end[e], view.to) - Math.max(events.start[e], view.from);
    }
    if (state.hits !== null && !state.hits[e]) continue;
    const k = key(e);
    let group = groups.get(k);
    if (group === undefined) groups.set(k, group = {event: e, count: 0, total: 0, longest: 0, bytes: 0});
    ++group.count;
    group.total += took;
    group.bytes += data.events.output[e];
    if (took > group.longest) { group.longest = took; group.event = e; }
    all += took;
  }
  const result = [...groups.values()];
  for (const group of result) { group.mean = group.total / group.count; group.share = all > 0 ? group.total / all : 0; }
  return result;
}

const time = (name, title) => ({name, title, text: (r) => duration(r[name])});
const numbers = [{name: "count", title: "Count", text: (r) => thousands(r.count)}, time("total", "Total"), time("mean", "Mean"), time("longest", "Longest"),
                 {name: "share", title: "Share", share: true, text: (r) => percent(r.share)}];
const outputColumn = {name: "bytes", title: "Output", text: (r) => bytesText(r.bytes)};
const opColumn = {name: "op", title: "Op", of: (r) => opName(r.event), swatch: true};
const nodeColumn = {name: "node", title: "Node", of: (r) => nameOf(r.event)};
function pathRows(inView) {
  let end = 0;
  return data.path.events.map((event, i) => {
    const row = {event, order: i + 1, start: events.start[event], total: events.took[event], gap: i === 0 ? 0 : Math.max(0, events.start[event] - end)};
    end = events.end[event];
    return row;
  }).filter((r) => (!inView || (events.end[r.event] >= view.from && r.start <= view.to)) && (state.hits === null || state.hits[r.event]));
}
const tabs = {
  ops: {title: "Ops", columns: [opColumn, ...numbers, outputColumn], rows: (v) => totalsBy(opOf, v), sort: "total"},
  nodes: {title: "Nodes", columns: [nodeColumn, opColumn, ...numbers, outputColumn], rows: (v) => totalsBy((e) => events.node[e], v), sort: "total"},
  path: {title: "Critical path", sort: "order", ascending: true, rows: pathRows, columns: [
    {name: "order", title: "#", text: (r) => thousands(r.order)}, nodeColumn, opColumn, {name: "start", title: "Start", text: (r) => moment(r.start, 100, length)},
    time("total", "Took"), time("gap", "Idle before")]},
};
let tab = "ops", shown = 0, sorted = [];
const kPage = 50;

function sortRows(list, columnName, ascending) {
  const column = tabs[tab].columns.find((c) => c.name === columnName);
  const value = column.of || ((r) => r[column.name]);
  const keyed = list.map((r) => [value(r), r]);
  const sign = ascending ? 1 : -1;
  keyed.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
  return keyed.map(([, r]) => r);
}

function cell(column, r) {
  if (column.share) {
    return make("td", {class: "share"}, make("i", {style: "--part:" + percent(r.share).replace(" ", "")}), make("span", {}, percent(r.share)));
  }
  if (!column.of) return make("td", {}, column.text(r));
  const td = make("td", {class: "text", title: column.of(r)});
  if (column.swatch) td.append(make("span", {class: "swatch", style: "background:" + colours[opOf(r.event)]}));
  td.append(column.of(r));
  return td;
}

function appendRows() {
  const body = byId("table").tBodies[0];
  for (const r of sorted.slice(shown, shown + kPage)) {
    const tr = make("tr", {tabindex: "0"}, ...tabs[tab].columns.map((column) => cell(column, r)));
    tr.onclick = () => select(r.event, true);
    tr.onkeydown = (e) => { if (e.key === "Enter") tr.click(); };
    body.append(tr);
  }
  shown = Math.min(shown + kPage, sorted.length);
  byId("more").hidden = shown >= sorted.length;
  byId("more").textContent = "Show more (" + thousands(sorted.length - shown) + " left)";
}

function fillTable() {
  const chosen = tabs[tab];
  sorted = sortRows(chosen.rows(byId("in-view").checked), chosen.sort, chosen.ascending === true);
  shown = 0;
  const head = make("tr");
  for (const column of chosen.columns) {
    const active = column.name === chosen.sort;
    const button = make("button", {type: "button"}, column.title + (active ? (chosen.ascending ? " ▲" : " ▼") : ""));
    button.onclick = () => {
      chosen.ascending = active ? !chosen.ascending : column.of !== undefined || column.name === "order" || column.name === "start";
      chosen.sort = column.name;
      fillTable();
    };
    const sort = active ? {"aria-sort": chosen.ascending ? "ascending" : "descending"} : {};
    head.append(make("th", {scope: "col", class: column.of ? "text" : "", ...sort}, button));
  }
  byId("table").replaceChildren(make("thead", {}, head), make("tbody"));
  byId("table-note").textContent = (state.hits === null ? "" : "matches of the search only · ") + plural(sorted.length, "row");
  appendRows();
}

let tableTimer = 0;
function refillSoon() {
  clearTimeout(tableTimer);
  tableTimer = setTimeout(fillTable, 120);
}
for (const [key, {title}] of Object.entries(tabs)) {
  const button = make("button", {type: "button", role: "tab", "aria-selected": key === tab}, title);
  button.onclick = () => {
    tab = key;
    for (const other of byId("tabs").children) other.setAttribute("aria-selected", other === button);
    fillTable();
  };
  byId("tabs").append(button);
}
byId("more").onclick = appendRows;
byId("in-view").onchange = fillTable;
watchers.view.push(() => { if (byId("in-view").checked) refillSoon(); });
let lastHits = null;
watchers.state.push(() => { if (state.hits !== lastHits) { lastHits = state.hits; refillSoon(); } });

// ---- Start

themeWatchers.push(readTheme, draw, fillTable);
startTheme();
new ResizeObserver(resize).observe(byId("stage"));
window.addEventListener("resize", resize);
resize();
fit();
fillTable();
showDetails();
