// Puts the parts together and opens what the address names.

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
  showTab(tabs[wanted.get("tab")] ? wanted.get("tab") : ["graph", "select", "search", "kernel"].some((key) => wanted.has(key)) ? "graphs" : "overview");
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
