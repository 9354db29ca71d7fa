"use strict";
// Draws the data of one profile. Everything that comes from the profile goes into the page as text or as
// attributes, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// ---- Numbers

function time(us) {
  if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
  if (us >= 1e3) return (us / 1e3).toFixed(us >= 1e5 ? 0 : 2) + " ms";
  return us.toFixed(us >= 100 ? 0 : 1) + " µs";
}

function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit++; }
  return (unit === 0 || count >= 100 ? count.toFixed(0) : count.toFixed(1)) + " " + units[unit];
}

const count = (n) => n.toLocaleString("en-US");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

function rate(amount, us, unit) {
  return amount > 0 && us > 0 ? (amount / us / 1e3).toFixed(2) + " " + unit : null;
}

// ---- The address of what is shown: #tab=graphs&graph=2&select=14&search=relu

const address = new URLSearchParams(location.hash.slice(1));

function remember(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") address.delete(key); else address.set(key, value);
  }
  history.replaceState(null, "", "#" + address.toString());
}

// ---- Tabs

const tabs = {overview: "Overview", graphs: "Graphs", timeline: "Timeline", memory: "Memory",
              recompiles: "Recompiles"};
const shown = {};

function showTab(name, focus = false) {
  for (const key of Object.keys(tabs)) {
    byId(key).hidden = key !== name;
    const button = byId("tab-" + key);
    button.setAttribute("aria-selected", key === name);
    button.tabIndex = key === name ? 0 : -1;
    if (key === name && focus) button.focus();
  }
  remember({tab: name});
  if (shown[name]) shown[name]();
}

function makeTabs() {
  const avoidable = data.misses.filter((miss) => miss.avoidable).length;
  const counts = {graphs: data.graphs.length, recompiles: data.misses.length};
  const names = Object.keys(tabs);
  names.forEach((key, i) => {
    const badge = counts[key] === undefined ? null : el("span",
      {class: "count" + (key === "recompiles" && avoidable ? " warn" : "")}, String(counts[key]));
    byId("tabs").append(el("button", {id: "tab-" + key, role: "tab", "aria-controls": key,
      onclick: () => showTab(key),
      onkeydown: (event) => {
        const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (step) showTab(names[(i + step + names.length) % names.length], true);
      }}, tabs[key], badge));
    byId(key).setAttribute("aria-labelledby", "tab-" + key);
  });
}
