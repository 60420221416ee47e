// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Where the data come from: the server of the page, or the page itself.

const [pageInfo, wholeIndex, wholeSeries, wholeGraphs] = data;

const kRetry = 2000, kMostIdsAtOnce = 200;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// A browser has few connections for all pages of a server: a hidden page must not keep one.
const untilSeen = () => new Promise((resolve) => {
  if (!document.hidden) return resolve();
  document.addEventListener("visibilitychange", () => resolve(untilSeen()), {once: true});
});

async function ask(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return response.json();
}

// `index` calls its callback with each state of the runs; `series` returns the points of existing ids;
// `showGraph` puts the page of a run's graph into a frame.
const source = pageInfo.live ? {
  async index(onIndex, onLost) {
    for (let since = 0; ;) {
      try {
        const index = await ask(`index?since=${since}`);
        if (index !== null) since = index.generation;
        await onIndex(index);
      } catch (error) {
        onLost(error);
        await pause(kRetry);
        since = 0;
      }
      // News come in a stream while files are read; a few times a second is enough.
      await pause(300);
      await untilSeen();
    }
  },
  async series(ids) {
    const all = {};
    for (let i = 0; i < ids.length; i += kMostIdsAtOnce) Object.assign(all, await ask(`series?ids=${ids.slice(i, i + kMostIdsAtOnce).join(",")}`));
    return all;
  },
  showGraph(frame, run) {
    frame.removeAttribute("srcdoc");
    frame.src = `graph?run=${run.id}`;
  },
} : {
  index(onIndex) {
    return onIndex(wholeIndex);
  },
  async series(ids) {
    return Object.fromEntries(ids.filter((id) => id in wholeSeries).map((id) => [id, wholeSeries[id]]));
  },
  showGraph(frame, run) {
    frame.srcdoc = wholeGraphs[run.id] ?? "";
  },
};

// ---- What every part of the page uses

function numberText(value) {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(3).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(5)));
}

function durationText(seconds) {
  const sign = seconds < 0 ? "−" : "", s = Math.abs(seconds);
  if (s < 60) return `${sign}${Number(s.toPrecision(3))} s`;
  if (s < 3600) return `${sign}${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 48 * 3600) return `${sign}${Math.floor(s / 3600)} h ${Math.floor(s / 60 % 60)} min`;
  return `${sign}${Math.floor(s / 86400)} d ${Math.floor(s / 3600 % 24)} h`;
}

function timeText(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "–";
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// What the reader has set, kept from visit to visit where the browser allows it.
const kSettingsKey = "millrace watch";
const settings = {smoothing: 0.6, axis: "step", log: false, outliers: false};
try {
  Object.assign(settings, JSON.parse(localStorage.getItem(kSettingsKey) ?? "{}"));
} catch {
  // A page without storage begins anew each time.
}
if (!(settings.smoothing >= 0 && settings.smoothing < 1)) settings.smoothing = 0.6;
function keepSettings() {
  try {
    localStorage.setItem(kSettingsKey, JSON.stringify(settings));
  } catch {
    // The same.
  }
}
