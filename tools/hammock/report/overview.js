// What happened, in numbers: tiles, a bar of time, the slowest kernels, the graphs.

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
  if (data.left_out) note(`The profile was full: ${plural(data.left_out, "event")} of its end are not in it. Raise profile_file_bytes.`);
  if (data.spans_left_out) note(`The timeline leaves out the ${plural(data.spans_left_out, "shortest span")}.`);
  if (data.cut) note("The profile ends in the middle of an event.");
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
      "compiling kernels in the background", el("b", {}, time(t.kernel_compile_us))));
  }
  return el("div", {}, el("h2", {}, "Where the time went"), bar, legend);
}

/// The last place that a kernel's nodes were recorded at, which is its result's; all of them as a hint.
function sourceCell(kernel) {
  const sources = kernel.sources || [];
  if (!sources.length) return "";
  const more = sources.length > 1 ? ` +${sources.length - 1}` : "";
  return el("span", {class: "mono", title: sources.join("\n")}, sources[sources.length - 1] + more);
}

function slowestKernels() {
  const all = [];
  data.graphs.forEach((graph, g) => graph.kernels.forEach((kernel, k) => {
    if (kernel.runs) all.push({graph, g, kernel, k});
  }));
  if (!all.length) return null;
  const sum = all.reduce((total, item) => total + item.kernel.total_us, 0);
  all.sort((a, b) => b.kernel.total_us - a.kernel.total_us);
  const head = ["kernel", "recorded at", "by", "graph", "runs", "median", "total", "share", "memory", "arithmetic"];
  const right = new Set([4, 5, 6, 8, 9]);
  const row = ({graph, g, kernel, k}) => {
    const share = kernel.total_us / sum;
    const cells = [
      el("button", {class: "link mono", onclick: () => openKernel(g, k)}, kernel.name),
      sourceCell(kernel), kernel.kind, String(graph.graph), count(kernel.runs), time(kernel.median_us), time(kernel.total_us),
      el("span", {}, el("i", {class: "share", style: `width:${Math.max(2, share * 90)}px`}), (share * 100).toFixed(share < .1 ? 1 : 0) + "%"),
      rate(kernel.bytes, kernel.min_us, "GB/s") || "", rate(kernel.flops, kernel.min_us, "GFLOP/s") || ""];
    return el("tr", {}, cells.map((cell, i) => el("td", {class: right.has(i) ? "right" : undefined}, cell)));
  };
  return el("div", {}, el("h2", {}, "Slowest kernels"), el("table", {id: "kernels"},
    el("thead", {}, el("tr", {}, head.map((name, i) => el("th", {class: right.has(i) ? "right" : undefined}, name)))),
    el("tbody", {}, all.slice(0, 12).map(row))));
}

function graphTable() {
  if (!data.graphs.length) return el("p", {class: "muted"}, "No graph ran while the profile was written.");
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
