// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
"use strict";
// What all pages have in common: their data, making of elements, texts of numbers, the theme.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function add(name, attributes, parent, text) {
  const made = make(name, attributes);
  if (text !== undefined) made.textContent = text;
  parent?.appendChild(made);
  return made;
}

function addSvg(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent?.appendChild(made);
  return made;
}

// ---- Texts

const thousands = (n) => Number(n).toLocaleString("en-US");
const plural = (n, what) => `${thousands(n)} ${what}${n === 1 ? "" : /(ch|s|x)$/.test(what) ? "es" : "s"}`;

// Three digits.
function digits(value) {
  if (value === 0) return "0";
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
}

function bytesText(bytes) {
  if (Math.abs(bytes) < 1024) return thousands(bytes) + " B";
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let unit = -1;
  do { bytes /= 1024; ++unit; } while (Math.abs(bytes) >= 1024 && unit < units.length - 1);
  return digits(bytes) + " " + units[unit];
}

// ---- The tip beside the pointer

// `fill` adds the content of the tip, which stays inside the window.
function showTip(fill, x, y) {
  const tip = byId("tip");
  tip.replaceChildren();
  fill(tip);
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, x + 16 + width < window.innerWidth ? x + 16 : x - 16 - width)}px`;
  tip.style.top = `${Math.max(4, y + 18 + height < window.innerHeight ? y + 18 : y - 12 - height)}px`;
}
function hideTip() { byId("tip").hidden = true; }

// ---- Theme: the system's, light or dark, kept from visit to visit where the browser allows it

const kThemeKey = "millrace theme", themes = ["auto", "light", "dark"];
const systemTheme = window.matchMedia("(prefers-color-scheme: dark)");
const themeWatchers = [];
let theme = "auto";

function isDark() { return theme === "dark" || (theme === "auto" && systemTheme.matches); }

function applyTheme() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  byId("theme").textContent = "Theme: " + theme;
  for (const watcher of themeWatchers) watcher();
}

// Called when the whole page is loaded.
function startTheme() {
  try {
    const kept = localStorage.getItem(kThemeKey);
    if (themes.includes(kept)) theme = kept;
  } catch { /* a page without storage begins anew each time */ }
  byId("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem(kThemeKey, theme); } catch { /* the same */ }
    applyTheme();
  });
  systemTheme.addEventListener("change", applyTheme);
  applyTheme();
}

// ---- Keys: "/" goes to the field that searches. Others are the page's, unless something is being typed.

function onKeys(field, handle) {
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      field.focus();
      event.preventDefault();
    } else if (handle(event)) {
      event.preventDefault();
    }
  });
}
