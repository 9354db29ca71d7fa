"use strict";
// Draws the data of one trace. Everything that comes from the trace goes into the page as text or as
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

// ---- Overview

function drawOverview() {
  const t = data.totals;
  const tile = (value, label, warn) =>
    el("div", {class: "tile" + (warn ? " warn" : "")}, el("b", {}, value), el("span", {}, label));
  byId("overview").append(
    el("h2", {}, "What happened"),
    el("div", {class: "tiles"},
      tile(count(t.ops), "ops traced"),
      tile(count(t.compiles), t.compiles === 1 ? "graph compiled" : "graphs compiled",
        data.misses.some((miss) => miss.avoidable)),
      tile(count(t.hits), "cache hits"),
      tile(count(t.runs), t.runs === 1 ? "run" : "runs"),
      tile(count(t.kernels), `kernels, ${count(t.kernel_runs)} times run`),
      tile(count(t.fallbacks), "ops on a fallback device", t.fallbacks > 0),
      tile(bytes(Math.max(t.peak, t.planned)), "peak memory"),
      tile(time(data.end_us), "in all")),
    notes(), timeBar(), slowestKernels(), graphTable());
}

function notes() {
  const list = el("div");
  const note = (text) => list.append(el("p", {class: "note"}, text));
  const avoidable = data.misses.filter((miss) => miss.avoidable);
  if (avoidable.length) {
    const kinds = [...new Set(avoidable.map((miss) => miss.kind))].join(", ");
    note(`${plural(avoidable.length, "compile")} could perhaps be avoided (${kinds}); see Recompiles.`);
  }
  for (const graph of data.graphs) {
    for (const fallback of graph.fallbacks || []) {
      note(`${fallback.op}${fallback.where ? " at " + fallback.where : ""} runs on a fallback device: ${fallback.reason}.`);
    }
  }
  if (data.left_out) note(`The trace was full: ${plural(data.left_out, "event")} of its end are not in it. Raise trace_file_bytes.`);
  if (data.spans_left_out) note(`The timeline leaves out the ${plural(data.spans_left_out, "shortest span")}.`);
  if (data.cut) note("The trace ends in the middle of an event.");
  return list;
}

const colour = {record: "--record", sync: "--sync", key: "--key", cache: "--cache",
  compile: "--compile", pass: "--pass", "kernel compile": "--kernel-compile", execute: "--execute",
  kernel: "--kernel", transfer: "--transfer", wait: "--wait", program: "--program-span"};
const colourOf = (category) => `var(${colour[category] || "--program-span"})`;

function timeBar() {
  const t = data.totals;
  const parts = [["tracing", t.record_us, "record"], ["compiling", t.compile_us, "compile"],
    ["running", t.execute_us, "execute"], ["transfers", t.transfer_us, "transfer"]];
  const rest = Math.max(0, data.end_us - parts.reduce((sum, part) => sum + part[1], 0));
  const bar = el("div", {class: "bar", role: "img", "aria-label": "Where the time went"});
  const legend = el("div", {class: "legend"});
  const entry = (name, us, background) => {
    if (us > 0) bar.append(el("div", {title: `${name}: ${time(us)}`, style: `flex:${us};background:${background}`}));
    legend.append(el("span", {}, el("i", {style: `background:${background}`}), name, el("b", {}, time(us))));
  };
  for (const [name, us, category] of parts) entry(name, us, colourOf(category));
  entry("the program itself, waiting", rest, "var(--soft)");
  if (t.kernel_compile_us > 0) {
    legend.append(el("span", {}, el("i", {style: `background:${colourOf("kernel compile")}`}),
      "compiling kernels beside it", el("b", {}, time(t.kernel_compile_us))));
  }
  return el("div", {}, el("h2", {}, "Where the time went"), bar, legend);
}

function slowestKernels() {
  const all = [];
  data.graphs.forEach((graph, g) => graph.kernels.forEach((kernel, k) => {
    if (kernel.runs) all.push({graph, g, kernel, k});
  }));
  if (!all.length) return null;
  const sum = all.reduce((total, item) => total + item.kernel.total_us, 0);
  all.sort((a, b) => b.kernel.total_us - a.kernel.total_us);
  const head = ["kernel", "by", "graph", "runs", "median", "total", "share", "memory", "arithmetic"];
  const right = new Set([3, 4, 5, 7, 8]);
  const row = ({graph, g, kernel, k}) => {
    const share = kernel.total_us / sum;
    const cells = [
      el("button", {class: "link mono", onclick: () => openKernel(g, k)}, kernel.name),
      kernel.kind, String(graph.graph), count(kernel.runs), time(kernel.median_us), time(kernel.total_us),
      el("span", {}, el("i", {class: "share", style: `width:${Math.max(2, share * 90)}px`}), (share * 100).toFixed(share < .1 ? 1 : 0) + "%"),
      rate(kernel.bytes, kernel.min_us, "GB/s") || "", rate(kernel.flops, kernel.min_us, "GFLOP/s") || ""];
    return el("tr", {}, cells.map((cell, i) => el("td", {class: right.has(i) ? "right" : undefined}, cell)));
  };
  return el("div", {}, el("h2", {}, "Slowest kernels"), el("table", {id: "kernels"},
    el("thead", {}, el("tr", {}, head.map((name, i) => el("th", {class: right.has(i) ? "right" : undefined}, name)))),
    el("tbody", {}, all.slice(0, 12).map(row))));
}

function graphTable() {
  if (!data.graphs.length) return el("p", {class: "muted"}, "No graph ran while the trace was written.");
  const head = ["graph", "device", "nodes", "kernels", "compiled in", "runs", "running", "planned memory"];
  const row = (graph, g) => {
    const runs = data.runs[graph.graph] || {runs: 0, total_us: 0};
    const cells = [el("button", {class: "link", onclick: () => { chooseGraph(g); showTab("graphs"); }}, graphName(graph)),
      graph.device, count(graph.nodes.length), count(graph.kernels.length), time(graph.compile_ms * 1e3),
      count(runs.runs), time(runs.total_us), bytes(graph.planned_bytes)];
    return el("tr", {}, cells.map((cell, i) => el("td", {class: i > 1 ? "right" : undefined}, cell)));
  };
  return el("div", {}, el("h2", {}, "Graphs"), el("table", {},
    el("thead", {}, el("tr", {}, head.map((name, i) => el("th", {class: i > 1 ? "right" : undefined}, name)))),
    el("tbody", {}, data.graphs.map(row))));
}

/// The graph that ran most often; of those, the one that took most time.
function busiestGraph() {
  const none = {runs: 0, total_us: 0};
  const before = (a, b) => a.runs - b.runs || a.total_us - b.total_us;
  return data.graphs.reduce((best, graph, g) =>
    before(data.runs[graph.graph] || none, data.runs[data.graphs[best].graph] || none) > 0 ? g : best, 0);
}

const graphName = (graph) => `${graph.graph}${graph.where ? " at " + graph.where : ""}`;

// ---- The graph

const view = {graph: null, index: -1, x: 0, y: 0, scale: 1, selected: null, kernel: null,
              matches: [], match: -1, users: [], nodes: [], boxes: [], lit: [], world: null, hot: null, mass: null,
              boxLayer: null, nodeLayer: null, coarse: null, strips: []};
const canvas = byId("graph");

function chooseGraph(index, keepView = false) {
  if (view.index === index && view.world) return;
  view.index = index;
  view.graph = data.graphs[index];
  byId("graph-choice").value = String(index);
  view.selected = view.kernel = null;
  drawGraph();
  if (!keepView) { remember({graph: view.graph.graph, select: null, kernel: null}); firstView(); }
  showDetails();
  search(byId("search").value);
}

function edgePath(graph, from, to) {
  const [ax, ay, aw, ah] = graph.nodes[from].box, [bx, by, bw] = graph.nodes[to].box;
  const x1 = ax + aw / 2, y1 = ay + ah, x2 = bx + bw / 2, y2 = by;
  const bend = Math.min(60, Math.max(12, (y2 - y1) / 2));
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

/// Edges by the height that they begin at, so that only those in sight are drawn. Very long ones are
/// faint, and left out where there are very many.
function edgeStrips(graph) {
  const height = 1200, most = 400, strips = new Map();
  let left = most;
  graph.nodes.forEach((node, id) => node.in.forEach((input) => {
    const top = graph.nodes[input].box[1], bottom = node.box[1], long = bottom - top > 1400;
    if (long && left-- <= 0) return;
    const key = (long ? "long" : "") + Math.floor(top / height);
    if (!strips.has(key)) strips.set(key, {edges: [], long, top, bottom});
    const strip = strips.get(key);
    strip.top = Math.min(strip.top, top);
    strip.bottom = Math.max(strip.bottom, bottom);
    strip.edges.push(edgePath(graph, input, id));
  }));
  return [...strips.values()].map(({edges, long, top, bottom}) =>
    ({top, bottom, path: svg("path", {class: long ? "edges long" : "edges", d: edges.join("")})}));
}

/// From box to box, each once, for a view from very far.
function coarseEdges(graph) {
  const seen = new Set();
  let path = "";
  const placed = (node) => node.kernel === undefined ? null : graph.kernels[node.kernel].box;
  graph.nodes.forEach((node) => node.in.forEach((input) => {
    const from = graph.nodes[input], a = placed(from), b = placed(node);
    const key = `${from.kernel} ${node.kernel}`;
    if (!a || !b || from.kernel === node.kernel || seen.has(key) || b[1] - a[1] > 6000) return;
    seen.add(key);
    path += `M${a[0] + a[2] / 2} ${a[1] + a[3]}L${b[0] + b[2] / 2} ${b[1]}`;
  }));
  return path;
}

function drawGraph() {
  const graph = view.graph;
  const slowest = Math.max(1e-9, ...graph.kernels.map((kernel) => kernel.median_us || 0));
  view.users = graph.nodes.map(() => []);
  graph.nodes.forEach((node, id) => node.in.forEach((input) => view.users[input].push(id)));
  const outputs = new Set(graph.outputs);
  const world = svg("g", {class: "world"});
  view.boxes = graph.kernels.map((kernel, k) => {
    const [x, y, width, height] = kernel.box;
    const heat = .09 + .34 * Math.sqrt((kernel.median_us || 0) / slowest);
    const label = svg("text", {x: x + 12, y: y + 16});
    const room = Math.max(6, Math.floor((width - 24) / 7.3));
    const text = kernel.runs ? `${kernel.name}  ${time(kernel.median_us)}` : kernel.name;
    label.textContent = text.length > room ? text.slice(0, room - 1) + "…" : text;
    const box = svg("g", {class: "kernel" + (kernel.kind === "kernel" ? "" : " call"), "data-kernel": k},
      svg("rect", {x, y, width, height, rx: 8, "fill-opacity": heat.toFixed(3)}), label);
    return box;
  });
  view.strips = edgeStrips(graph);
  view.boxLayer = svg("g");
  view.nodeLayer = svg("g");
  view.mass = svg("path", {class: "mass", d: graph.nodes.map(({box: [x, y, w, h]}) => `M${x} ${y}h${w}v${h}h${-w}z`).join("")});
  view.coarse = svg("path", {class: "edges", d: coarseEdges(graph)});
  world.append(view.boxLayer, view.mass, view.coarse, ...view.strips.map((strip) => strip.path));
  view.hot = svg("path", {class: "edges hot"});
  world.append(view.hot, view.nodeLayer);
  view.nodes = graph.nodes.map((node, id) => {
    const [x, y, width, height] = node.box;
    const op = svg("text", {x: width / 2, y: 17}), type = svg("text", {x: width / 2, y: 32, class: "type"});
    op.textContent = node.op;
    type.textContent = node.type.length > 28 ? node.type.slice(0, 27) + "…" : node.type;
    const leaf = node.in.length === 0 ? " leaf" : "";
    const box = svg("g", {class: "node" + leaf + (outputs.has(id) ? " output" : ""), "data-node": id,
      transform: `translate(${x} ${y})`}, svg("rect", {width, height, rx: leaf ? height / 2 : 6}), op, type);
    return box;
  });
  view.lit = [];
  canvas.replaceChildren(world);
  view.world = world;
}

function applyView() {
  view.world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  canvas.classList.toggle("far", view.scale < .38);
  canvas.classList.toggle("farther", view.scale < .16);
  showWhatIsInSight();
}

/// Only what is in sight is in the page: each zoom costs as much as there is. From very far, nodes are
/// one shape.
function showWhatIsInSight() {
  const margin = 200, width = canvas.clientWidth, height = canvas.clientHeight;
  const left = (-margin - view.x) / view.scale, right = (width + margin - view.x) / view.scale;
  const top = (-margin - view.y) / view.scale, bottom = (height + margin - view.y) / view.scale;
  const far = view.scale < .16;
  view.mass.style.display = view.coarse.style.display = far ? "" : "none";
  for (const strip of view.strips) {
    strip.path.style.display = far || strip.top > bottom || strip.bottom < top ? "none" : "";
  }
  const place = (layer, element, [x, y, w, h], hidden) => {
    const shown = !hidden && x <= right && x + w >= left && y <= bottom && y + h >= top;
    if (shown && !element.parentNode) layer.append(element);
    if (!shown && element.parentNode) element.remove();
  };
  view.nodes.forEach((element, id) => place(view.nodeLayer, element, view.graph.nodes[id].box, far));
  view.boxes.forEach((element, k) => place(view.boxLayer, element, view.graph.kernels[k].box, !view.graph.kernels[k].box[2]));
}

function fit() {
  if (!view.graph) return;
  const {width, height} = canvas.getBoundingClientRect();
  if (!width) return;
  const margin = 28;
  view.scale = Math.min((width - 2 * margin) / Math.max(1, view.graph.width),
    (height - 2 * margin) / Math.max(1, view.graph.height), 1.15);
  view.x = (width - view.graph.width * view.scale) / 2;
  view.y = (height - view.graph.height * view.scale) / 2;
  applyView();
}

/// All of it; of a graph too large to be seen at once, the kernel that takes most time.
function firstView() {
  fit();
  const slowest = slowestOf(view.graph)[0];
  if (view.scale >= .2 || slowest === undefined) return;
  view.scale = .75;
  const room = canvas.getBoundingClientRect(), [x, y, width] = view.graph.kernels[slowest].box;
  view.x = room.width / 2 - (x + width / 2) * view.scale;
  view.y = 60 - y * view.scale;
  applyView();
}

/// Numbers of the kernels that have a time, slowest first.
function slowestOf(graph) {
  const timed = graph.kernels.map((_, k) => k).filter((k) => graph.kernels[k].runs);
  return timed.sort((a, b) => graph.kernels[b].median_us - graph.kernels[a].median_us);
}

function zoom(factor, cx, cy) {
  const {width, height} = canvas.getBoundingClientRect();
  cx = cx ?? width / 2; cy = cy ?? height / 2;
  const scale = Math.min(4, Math.max(.01, view.scale * factor));
  view.x = cx - (cx - view.x) * scale / view.scale;
  view.y = cy - (cy - view.y) * scale / view.scale;
  view.scale = scale;
  applyView();
}

/// Brings a box into the middle if it is not well in view, large enough to be read.
function reveal([x, y, width, height]) {
  const room = canvas.getBoundingClientRect();
  if (!room.width) return;
  if (view.scale < .6) view.scale = Math.min(1, room.width / (width + 80), room.height / (height + 80));
  const left = x * view.scale + view.x, top = y * view.scale + view.y;
  const inside = left > 20 && top > 20 && left + width * view.scale < room.width - 20 &&
    top + height * view.scale < room.height - 20;
  if (!inside || canvas.classList.contains("far")) {
    view.x = room.width / 2 - (x + width / 2) * view.scale;
    view.y = room.height / 2 - (y + height / 2) * view.scale;
  }
  applyView();
}

function select(node, kernel = null) {
  for (const old of view.lit) old.classList.remove("selected", "near");
  view.lit = [];
  const light = (element, name) => { element.classList.add(name); view.lit.push(element); };
  view.selected = node;
  view.kernel = node === null ? kernel : view.graph.nodes[node].kernel ?? null;
  let hot = "";
  if (node !== null) {
    light(view.nodes[node], "selected");
    for (const input of view.graph.nodes[node].in) {
      light(view.nodes[input], "near");
      hot += edgePath(view.graph, input, node);
    }
    for (const user of view.users[node]) {
      light(view.nodes[user], "near");
      hot += edgePath(view.graph, node, user);
    }
  }
  if (view.kernel !== null) light(view.boxes[view.kernel], "selected");
  view.hot.setAttribute("d", hot);
  remember({graph: view.graph.graph, select: node, kernel: node === null ? view.kernel : null});
  showDetails();
}

function openKernel(g, k) {
  showTab("graphs");
  chooseGraph(g);
  select(null, k);
  reveal(view.graph.kernels[k].box);
}

// ---- Details

function facts(pairs) {
  const list = el("dl");
  for (const [name, value] of pairs) {
    if (value !== null && value !== undefined && value !== "") list.append(el("dt", {}, name), el("dd", {}, value));
  }
  return list;
}

const nodeLink = (id) => el("button", {class: "link mono", onclick: () => { select(id); reveal(view.graph.nodes[id].box); }},
  `%${id} ${view.graph.nodes[id].op}`);

function nodeLinks(title, ids) {
  if (!ids.length) return null;
  const most = 24;
  return el("div", {}, el("h4", {}, title), el("div", {class: "links"}, ids.slice(0, most).map(nodeLink),
    ids.length > most ? el("span", {class: "muted"}, `and ${ids.length - most} more`) : null));
}

function kernelDetails(k) {
  const kernel = view.graph.kernels[k];
  const graphTime = view.graph.kernels.reduce((sum, other) => sum + (other.total_us || 0), 0);
  return el("div", {}, el("h4", {}, "Kernel"),
    el("button", {class: "link mono", onclick: () => { select(null, k); reveal(kernel.box); }}, kernel.name),
    facts([
      ["run by", kernel.kind === "kernel" ? "compiled kernel" : kernel.kind],
      ["device", kernel.fallback],
      ["runs", kernel.runs ? count(kernel.runs) : "none in the trace"],
      ["time", kernel.runs ? `${time(kernel.median_us)} median, ${time(kernel.min_us)} least` : null],
      ["total", kernel.runs ? `${time(kernel.total_us)}, ${(100 * kernel.total_us / graphTime).toFixed(1)}% of the graph` : null],
      ["memory", kernel.bytes ? `${bytes(kernel.bytes)} read and written` + (kernel.runs ? `, ${rate(kernel.bytes, kernel.min_us, "GB/s")}` : "") : null],
      ["arithmetic", kernel.flops ? `${count(kernel.flops)} operations` + (kernel.runs ? `, ${rate(kernel.flops, kernel.min_us, "GFLOP/s")}` : "") : null]]),
    kernel.text ? el("pre", {id: "kernel-text"}, kernel.text) : null);
}

function showDetails() {
  const panel = byId("details"), graph = view.graph;
  if (!graph) return panel.replaceChildren(el("p", {class: "muted"}, "The trace has no graph."));
  if (view.selected !== null) {
    const node = graph.nodes[view.selected];
    const code = node.at && graph.lines ? graph.lines[node.at] : "";
    panel.replaceChildren(
      el("h3", {id: "details-title"}, node.op),
      facts([["node", `%${view.selected}`], ["type", el("span", {class: "mono"}, node.type)],
        ["attributes", node.attrs ? el("span", {class: "mono"}, node.attrs) : null],
        ["source", node.at ? el("span", {class: "mono"}, node.at) : null], ["module", node.module]]),
      ...[code ? el("pre", {}, code) : null, nodeLinks("Inputs", node.in), nodeLinks("Used by", view.users[view.selected]),
        view.kernel !== null ? kernelDetails(view.kernel) : null].filter(Boolean));
    return;
  }
  if (view.kernel !== null) {
    const ids = graph.nodes.map((_, id) => id).filter((id) => graph.nodes[id].kernel === view.kernel);
    panel.replaceChildren(el("h3", {id: "details-title"}, graph.kernels[view.kernel].name),
      ...[kernelDetails(view.kernel), nodeLinks("Nodes", ids)].filter(Boolean));
    return;
  }
  const runs = data.runs[graph.graph] || {runs: 0, total_us: 0};
  panel.replaceChildren(el("h3", {id: "details-title"}, `Graph ${graph.graph}`),
    facts([["device", graph.device], ["synced at", graph.where ? el("span", {class: "mono"}, graph.where) : null],
      ["traced ops", count(graph.traced_nodes)], ["nodes", count(graph.nodes.length)],
      ["kernels", count(graph.kernels.length)], ["compiled in", time(graph.compile_ms * 1e3)],
      ["for all sizes", graph.general ? "yes" : null], ["runs", count(runs.runs)],
      ["running", time(runs.total_us)], ["inputs", bytes(graph.argument_bytes)],
      ["results", bytes(graph.result_bytes)], ["planned memory", bytes(graph.planned_bytes)],
      ["hash", el("span", {class: "mono"}, graph.hash)]]),
    el("h4", {}, "Slowest kernels"),
    el("ol", {}, slowestOf(graph).slice(0, 10).map((k) => el("li", {},
      el("button", {class: "link mono", onclick: () => { select(null, k); reveal(graph.kernels[k].box); }}, graph.kernels[k].name),
      el("span", {}, time(graph.kernels[k].median_us))))),
    el("p", {class: "muted", style: "margin-top:22px"}, "A box is a kernel: its nodes run in one pass over memory. The darker it is, the more time it takes; a dashed one is a call of a library. Click a node or a box."),
    el("p", {class: "muted"}, el("kbd", {}, "/"), " search  ", el("kbd", {}, "+"), " ", el("kbd", {}, "−"), " zoom  ",
      el("kbd", {}, "0"), " all  ", el("kbd", {}, "←↑↓→"), " walk  ", el("kbd", {}, "Esc"), " back"));
}

// ---- Search

function search(text) {
  const wanted = text.trim().toLowerCase();
  for (const id of view.matches) view.nodes[id]?.classList.remove("match");
  view.matches = [];
  view.match = -1;
  canvas.classList.toggle("searching", wanted !== "");
  if (wanted && view.graph) {
    view.graph.nodes.forEach((node, id) => {
      const kernel = node.kernel === undefined ? "" : view.graph.kernels[node.kernel].name;
      const all = [`%${id}`, node.op, node.type, node.at, node.attrs, node.module, kernel].join("\n").toLowerCase();
      if (all.includes(wanted)) { view.matches.push(id); view.nodes[id].classList.add("match"); }
    });
  }
  byId("search-count").textContent = wanted ? (view.matches.length ? plural(view.matches.length, "node") : "nothing found") : "";
  remember({search: text});
}

function nextMatch(step) {
  if (!view.matches.length) return;
  view.match = (view.match + step + view.matches.length) % view.matches.length;
  const id = view.matches[view.match];
  select(id);
  reveal(view.graph.nodes[id].box);
  byId("search-count").textContent = `${view.match + 1} of ${plural(view.matches.length, "node")}`;
}

// ---- Keys and pointers of the graph

function walk(key) {
  const graph = view.graph;
  if (view.selected === null) return select(graph.outputs[0] ?? 0), reveal(graph.nodes[view.selected].box);
  const node = graph.nodes[view.selected];
  let next = null;
  if (key === "ArrowUp") next = node.in[0];
  if (key === "ArrowDown") next = view.users[view.selected][0];
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const sign = key === "ArrowRight" ? 1 : -1;
    let best = Infinity;
    graph.nodes.forEach((other, id) => {
      const dx = (other.box[0] - node.box[0]) * sign;
      if (Math.abs(other.box[1] - node.box[1]) < 6 && dx > 0 && dx < best) { best = dx; next = id; }
    });
  }
  if (next !== null && next !== undefined) { select(next); reveal(graph.nodes[next].box); }
}

function bindGraph() {
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = {x: event.clientX, y: event.clientY, moved: false};
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!drag.moved) { drag.moved = true; canvas.setPointerCapture(event.pointerId); canvas.classList.add("dragging"); }
    view.x += dx; view.y += dy;
    drag.x = event.clientX; drag.y = event.clientY;
    applyView();
  });
  const end = () => { canvas.classList.remove("dragging"); setTimeout(() => { drag = null; }); };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("click", (event) => {
    if (drag && drag.moved) return;
    const node = event.target.closest(".node"), kernel = event.target.closest(".kernel");
    if (node) select(Number(node.dataset.node));
    else if (kernel) select(null, Number(kernel.dataset.kernel));
    else select(null);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const room = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * .0016), event.clientX - room.left, event.clientY - room.top);
  }, {passive: false});
  canvas.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) { event.preventDefault(); walk(event.key); }
    if (event.key === "Escape") select(null);
  });
  byId("zoom-in").onclick = () => zoom(1.3);
  byId("zoom-out").onclick = () => zoom(1 / 1.3);
  byId("zoom-fit").onclick = fit;
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextMatch(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { event.target.value = ""; search(""); canvas.focus(); }
  });
  const choice = byId("graph-choice");
  data.graphs.forEach((graph, g) => choice.append(el("option", {value: g},
    `${graphName(graph)} · ${plural(graph.nodes.length, "node")} · ${plural(graph.kernels.length, "kernel")}`)));
  choice.onchange = () => chooseGraph(Number(choice.value));
  document.addEventListener("keydown", (event) => {
    if (byId("graphs").hidden || /^(input|select|textarea)$/i.test(event.target.tagName)) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); byId("search").focus(); byId("search").select(); }
    if (event.key === "+" || event.key === "=") zoom(1.3);
    if (event.key === "-") zoom(1 / 1.3);
    if (event.key === "0") fit();
  });
}

// ---- Timeline

const clock = {from: 0, to: 1, rows: [], picked: null, height: 0, scroll: 0};
const lane = 20, threadGap = 30, axis = 26;

function layThreads() {
  let y = axis;
  clock.rows = data.threads.map((thread) => {
    const depth = Math.max(0, ...thread.spans.map((span) => span[4])) + 1;
    const row = {thread, y: y + 18, depth};
    y += 18 + depth * lane + threadGap - 12;
    return row;
  });
  clock.height = y;
}

function fitTime() {
  clock.from = -data.end_us * .01;
  clock.to = Math.max(1, data.end_us * 1.01);
  drawTime();
}

function style(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function axisStep(span, width) {
  const rough = span / (width / 110), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

function drawTime() {
  const target = byId("time-canvas");
  const {width, height} = target.getBoundingClientRect();
  if (!width) return;
  const dpr = devicePixelRatio || 1;
  target.width = width * dpr;
  target.height = height * dpr;
  const g = target.getContext("2d");
  g.scale(dpr, dpr);
  clock.scroll = Math.max(0, Math.min(clock.scroll, clock.height - height));
  const toX = (us) => (us - clock.from) / (clock.to - clock.from) * width;
  const ink = style("--ink"), muted = style("--muted"), line = style("--line"), panel = style("--panel"), accent = style("--accent"), warn = style("--warn");
  const colours = Object.fromEntries(Object.entries(colour).map(([name, variable]) => [name, style(variable)]));
  g.fillStyle = panel;
  g.fillRect(0, 0, width, height);
  g.font = "12px system-ui, sans-serif";
  g.textBaseline = "middle";
  const step = axisStep(clock.to - clock.from, width);
  for (let t = Math.ceil(clock.from / step) * step; t < clock.to; t += step) {
    const x = Math.round(toX(t)) + .5;
    g.strokeStyle = line;
    g.beginPath(); g.moveTo(x, axis); g.lineTo(x, height); g.stroke();
  }
  for (const row of clock.rows) {
    const top = row.y - clock.scroll;
    g.fillStyle = muted;
    g.fillText(row.thread.name, 8, top - 9);
    const last = [];
    for (const span of row.thread.spans) {
      const [category, name, start, duration, depth] = span;
      if (start > clock.to || start + duration < clock.from) continue;
      const x = toX(start), w = Math.max(1, toX(start + duration) - x), y = top + depth * lane;
      // What would cover the same pixels is drawn once.
      if (last[depth] !== undefined && x + w < last[depth] + .5) continue;
      last[depth] = x + w;
      g.fillStyle = colours[category] || colours.program;
      g.fillRect(x, y, w > 3 ? w - .6 : w, lane - 2);
      if (span === clock.picked) { g.strokeStyle = ink; g.lineWidth = 2; g.strokeRect(x, y, w, lane - 2); g.lineWidth = 1; }
      const left = Math.max(x, 0), room = Math.min(x + w, width) - left;
      if (room > 34) {
        g.save();
        g.beginPath(); g.rect(left, y, room - 4, lane); g.clip();
        g.fillStyle = category === "sync" || category === "pass" || category === "cache" ? ink : "#fff";
        g.fillText(name, left + 5, y + lane / 2 - .5);
        g.restore();
      }
    }
  }
  g.fillStyle = panel;
  g.fillRect(0, 0, width, axis);
  g.strokeStyle = line;
  g.beginPath(); g.moveTo(0, axis + .5); g.lineTo(width, axis + .5); g.stroke();
  g.fillStyle = muted;
  for (let t = Math.ceil(clock.from / step) * step; t < clock.to; t += step) {
    g.fillText(t === 0 ? "0" : time(t), toX(t) + 4, axis / 2);
  }
  g.fillStyle = warn;
  for (const miss of data.misses) {
    const x = toX(miss.time);
    g.beginPath(); g.moveTo(x, axis); g.lineTo(x - 5, axis - 9); g.lineTo(x + 5, axis - 9); g.fill();
  }
  if (!data.threads.length) { g.fillStyle = muted; g.fillText("The trace has no spans.", 20, 60); }
  void accent;
}

function spanAt(x, y, width) {
  const us = clock.from + x / width * (clock.to - clock.from), slack = (clock.to - clock.from) / width * 2;
  for (const row of clock.rows) {
    const depth = Math.floor((y + clock.scroll - row.y) / lane);
    if (depth < 0 || depth >= row.depth) continue;
    let best = null;
    for (const span of row.thread.spans) {
      if (span[4] !== depth || span[2] > us + slack || span[2] + span[3] < us - slack) continue;
      if (!best || Math.abs(span[2] + span[3] / 2 - us) < Math.abs(best[2] + best[3] / 2 - us)) best = span;
    }
    return best;
  }
  return null;
}

function pickSpan(span) {
  clock.picked = span;
  drawTime();
  const panel = byId("span-details");
  if (!span) return panel.replaceChildren(el("span", {class: "muted"}, "Click a span. Drag to move, turn the wheel to zoom; orange marks are compiles."));
  const [category, name, start, duration, , args] = span;
  const list = Object.entries(args || {}).filter(([key]) => key !== "graph" && key !== "kernel").map(([key, value]) => `${key} ${value}`);
  const parts = [el("b", {}, name), ` ${time(duration)} `,
    el("span", {class: "facts"}, `${category} · at ${time(start)}${list.length ? " · " + list.join(" · ") : ""}`)];
  const g = data.graphs.findIndex((graph) => args && graph.graph === args.graph);
  if (g >= 0) {
    const open = () => args.kernel === undefined ? (showTab("graphs"), chooseGraph(g), select(null)) : openKernel(g, args.kernel);
    parts.push(" ", el("button", {class: "link", onclick: open}, args.kernel === undefined ? `graph ${args.graph}` : "show the kernel"));
  }
  panel.replaceChildren(...parts);
}

function bindTime() {
  const target = byId("time-canvas"), tip = byId("tooltip");
  layThreads();
  const names = [...new Set(data.threads.flatMap((thread) => thread.spans.map((span) => span[0])))];
  for (const name of Object.keys(colour).filter((key) => names.includes(key))) {
    byId("legend").append(el("span", {}, el("i", {style: `background:${colourOf(name)}`}), name));
  }
  const zoomTime = (factor, x) => {
    const {width} = target.getBoundingClientRect();
    const at = clock.from + (x ?? width / 2) / width * (clock.to - clock.from);
    const span = Math.min(data.end_us * 1.2 + 1, Math.max(.05, (clock.to - clock.from) * factor));
    const share = (at - clock.from) / (clock.to - clock.from);
    clock.from = at - span * share;
    clock.to = clock.from + span;
    drawTime();
  };
  const move = (share) => {
    const by = (clock.to - clock.from) * share;
    clock.from += by; clock.to += by;
    drawTime();
  };
  let drag = null;
  target.addEventListener("pointerdown", (event) => {
    drag = {x: event.clientX, y: event.clientY, moved: false};
    target.setPointerCapture(event.pointerId);
  });
  target.addEventListener("pointermove", (event) => {
    const room = target.getBoundingClientRect(), x = event.clientX - room.left, y = event.clientY - room.top;
    if (drag) {
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      drag.moved = true;
      drag.x = event.clientX; drag.y = event.clientY;
      clock.scroll -= dy;
      tip.hidden = true;
      return move(-dx / room.width);
    }
    const span = spanAt(x, y, room.width);
    tip.hidden = !span;
    if (!span) return;
    tip.textContent = `${span[1]}  ${time(span[3])}`;
    tip.style.left = Math.min(x + 12, room.width - tip.offsetWidth - 8) + "px";
    tip.style.top = y + 16 + "px";
  });
  target.addEventListener("pointerleave", () => { tip.hidden = true; });
  target.addEventListener("pointerup", (event) => {
    const room = target.getBoundingClientRect();
    if (drag && !drag.moved) pickSpan(spanAt(event.clientX - room.left, event.clientY - room.top, room.width));
    drag = null;
  });
  target.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey) return move(event.deltaY * .001);
    zoomTime(Math.exp(event.deltaY * .0016), event.clientX - target.getBoundingClientRect().left);
  }, {passive: false});
  target.addEventListener("keydown", (event) => {
    const act = {ArrowLeft: () => move(-.15), ArrowRight: () => move(.15), "+": () => zoomTime(.7), "=": () => zoomTime(.7),
      "-": () => zoomTime(1.4), "0": fitTime, ArrowDown: () => { clock.scroll += 40; drawTime(); }, ArrowUp: () => { clock.scroll -= 40; drawTime(); }}[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  byId("time-in").onclick = () => zoomTime(.6);
  byId("time-out").onclick = () => zoomTime(1.6);
  byId("time-fit").onclick = fitTime;
  pickSpan(null);
}

// ---- Memory

function drawMemory() {
  const section = byId("memory");
  section.append(el("h2", {}, "Memory over time"));
  if (!data.memory.length) return section.append(el("p", {class: "muted"}, "The trace has no memory samples."));
  for (const {device, samples} of data.memory) {
    const width = 1080, height = 300, left = 72, bottom = 28, top = 26, right = 18;
    const use = Math.max(...samples.map((sample) => sample[1])), plan = Math.max(...samples.map((sample) => sample[2]));
    const most = Math.max(1, use, plan) * 1.08, end = Math.max(1, data.end_us);
    const x = (us) => left + us / end * (width - left - right), y = (amount) => height - bottom - amount / most * (height - bottom - top);
    const steps = (column) => samples.map((sample, i) => (i ? `H${x(sample[0]).toFixed(1)}` : `M${x(sample[0]).toFixed(1)} ${y(sample[column]).toFixed(1)}`) +
      `V${y(sample[column]).toFixed(1)}`).join("") + `H${x(end).toFixed(1)}`;
    const chart = svg("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `Memory of ${device}: ${bytes(use)} in use at most, ${bytes(plan)} planned`});
    for (let i = 0; i <= 4; i++) {
      const amount = most / 4 * i, at = y(amount);
      const text = svg("text", {x: left - 8, y: at + 4, "text-anchor": "end"});
      text.textContent = bytes(amount);
      chart.append(svg("line", {class: "grid", x1: left, x2: width - right, y1: at, y2: at}), text);
    }
    for (let i = 0; i <= 5; i++) {
      const text = svg("text", {x: x(end / 5 * i), y: height - 9, "text-anchor": i === 0 ? "start" : i === 5 ? "end" : "middle"});
      text.textContent = i ? time(end / 5 * i) : "0";
      chart.append(text);
    }
    chart.append(svg("path", {class: "area", d: steps(1) + `V${y(0)}H${x(samples[0][0])}Z`}),
      svg("path", {class: "use", d: steps(1)}), svg("path", {class: "plan", d: steps(2)}));
    const peak = svg("text", {class: "peak", x: width - right, y: y(plan) - 7, "text-anchor": "end"});
    peak.textContent = `planned peak ${bytes(plan)}`;
    chart.append(peak);
    section.append(el("p", {}, el("b", {}, device)), chart, el("div", {class: "legend"},
      el("span", {}, el("i", {style: "background:var(--execute)"}), "in use between runs, at most", el("b", {}, bytes(use))),
      el("span", {}, el("i", {style: "background:var(--compile)"}), "with what each run plans to take, at most", el("b", {}, bytes(plan)))));
  }
}

// ---- Recompiles

function drawMisses() {
  const section = byId("recompiles");
  section.append(el("h2", {}, "Why graphs were compiled"));
  if (!data.misses.length) {
    section.append(el("p", {class: "muted"}, "Nothing was compiled while the trace was written: every graph was in the cache."));
    return;
  }
  section.append(el("p", {class: "muted"}, "A graph is compiled when none like it is in the cache. Each compile names the nearest graph that is there and the first thing that differs."));
  for (const miss of data.misses) {
    section.append(el("article", {class: "miss"},
      el("header", {}, el("b", {}, `Compile ${miss.number}`), el("span", {class: "badge" + (miss.avoidable ? " warn" : "")}, miss.kind),
        el("span", {class: "muted"}, `${miss.trigger || ""}${miss.where ? " at " + miss.where : ""} · ${miss.device} · ${plural(miss.nodes, "node")} · ${time(miss.time)}`)),
      el("p", {class: "what"}, miss.detail), miss.generalised ? el("p", {class: "what"}, "Compiled " + miss.generalised + ".") : null,
      el("p", {class: "advice"}, miss.advice)));
  }
}

// ---- Start

function start() {
  const when = data.started ? new Date(data.started * 1000).toLocaleString() : "";
  byId("program").textContent = [data.program, when].filter(Boolean).join(" · ");
  document.title = `${data.program || "Hammock"} report`;
  makeTabs();
  drawOverview();
  bindGraph();
  bindTime();
  drawMemory();
  drawMisses();
  const wanted = new URLSearchParams(location.hash.slice(1));
  let fitted = false;
  shown.graphs = () => {
    if (!view.world) { if (data.graphs.length) chooseGraph(busiestGraph()); else showDetails(); return; }
    if (!fitted) { fitted = true; if (view.selected === null && view.kernel === null) firstView(); }
  };
  shown.timeline = () => { if (clock.to === 1) fitTime(); else drawTime(); };
  addEventListener("resize", () => {
    if (!byId("timeline").hidden) drawTime();
    if (!byId("graphs").hidden && view.world) applyView();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTime);
  showTab(tabs[wanted.get("tab")] ? wanted.get("tab") : wanted.has("select") || wanted.has("search") || wanted.has("kernel") ? "graphs" : "overview");
  openAddress(wanted);
}

function openAddress(wanted) {
  if (!data.graphs.length) return;
  const g = data.graphs.findIndex((graph) => String(graph.graph) === wanted.get("graph"));
  if (wanted.has("search")) byId("search").value = wanted.get("search");
  if (g >= 0 || wanted.has("select") || wanted.has("search") || wanted.has("kernel")) chooseGraph(g >= 0 ? g : busiestGraph());
  if (wanted.has("search")) search(wanted.get("search"));
  const node = Number(wanted.get("select") ?? NaN), kernel = Number(wanted.get("kernel") ?? NaN);
  if (view.graph && view.graph.nodes[node]) { select(node); reveal(view.graph.nodes[node].box); }
  else if (view.graph && view.graph.kernels[kernel]) { select(null, kernel); reveal(view.graph.kernels[kernel].box); }
}

start();
