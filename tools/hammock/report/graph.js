// A graph with its kernels as boxes: drawing, moving, selecting, searching.

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
