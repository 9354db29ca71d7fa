// The panel beside the graph: what is known of a node, a kernel or the graph.

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
      ["recorded at", (kernel.sources || []).length ? el("span", {class: "mono"}, kernel.sources.slice(-3).join(", ")) : null],
      ["runs", kernel.runs ? count(kernel.runs) : "none in the profile"],
      ["time", kernel.runs ? `${time(kernel.median_us)} median, ${time(kernel.min_us)} least` : null],
      ["total", kernel.runs ? `${time(kernel.total_us)}, ${(100 * kernel.total_us / graphTime).toFixed(1)}% of the graph` : null],
      ["memory", kernel.bytes ? `${bytes(kernel.bytes)} read and written` + (kernel.runs ? `, ${rate(kernel.bytes, kernel.min_us, "GB/s")}` : "") : null],
      ["arithmetic", kernel.flops ? `${count(kernel.flops)} operations` + (kernel.runs ? `, ${rate(kernel.flops, kernel.min_us, "GFLOP/s")}` : "") : null]]),
    kernel.text ? el("pre", {id: "kernel-text"}, kernel.text) : null);
}

function showDetails() {
  const panel = byId("details"), graph = view.graph;
  if (!graph) return panel.replaceChildren(el("p", {class: "muted"}, "The profile has no graph."));
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
      ["computed again", graph.recomputed || null],
      ["hash", el("span", {class: "mono"}, graph.hash)]]),
    ...(slowestOf(graph).length ? [el("h4", {}, "Slowest kernels")] : []),
    el("ol", {}, slowestOf(graph).slice(0, 10).map((k) => el("li", {},
      el("button", {class: "link mono", onclick: () => { select(null, k); reveal(graph.kernels[k].box); }}, graph.kernels[k].name),
      el("span", {}, time(graph.kernels[k].median_us))))),
    el("p", {class: "muted", style: "margin-top:22px"}, "A box is a kernel: its nodes run in one pass over memory. The darker it is, the more time it takes; a dashed one is a call of a library. Click a node or a box."),
    el("p", {class: "muted"}, el("kbd", {}, "/"), " search  ", el("kbd", {}, "+"), " ", el("kbd", {}, "−"), " zoom  ",
      el("kbd", {}, "0"), " all  ", el("kbd", {}, "←↑↓→"), " walk  ", el("kbd", {}, "Esc"), " back"));
}
