// Memory over time, and why graphs were compiled.

// ---- Memory

function drawMemory() {
  const section = byId("memory");
  section.append(el("h2", {}, "Memory over time"));
  if (!data.memory.length) return section.append(el("p", {class: "muted"}, "The profile has no memory samples."));
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
      el("span", {}, el("i", {style: "background:var(--execute)"}), "in use, at most", el("b", {}, bytes(use))),
      el("span", {}, el("i", {style: "background:var(--compile)"}), "planned for the highest point of a run, at most", el("b", {}, bytes(plan)))));
  }
}

// ---- Recompiles

function drawMisses() {
  const section = byId("recompiles");
  section.append(el("h2", {}, "Why graphs were compiled"));
  if (!data.misses.length) {
    section.append(el("p", {class: "muted"}, "Nothing was compiled while the profile was written: every graph was in the cache."));
    return;
  }
  section.append(el("p", {class: "muted"}, "A graph is compiled when none like it is in the cache. Each compile names the nearest graph that is there and the first thing that differs."));
  for (const miss of data.misses) {
    section.append(el("article", {class: "miss"},
      el("header", {}, el("b", {}, `Compile ${miss.number}`), el("span", {class: "badge" + (miss.avoidable ? " warn" : "")}, miss.kind),
        el("span", {class: "muted"}, `${miss.trigger || ""}${miss.where ? " at " + miss.where : ""} · ${miss.device} · ${plural(miss.nodes, "node")}${miss.compile_us ? ` · compiled in ${time(miss.compile_us)}` : ""} · ${time(miss.time)} after the start`)),
      el("p", {class: "what"}, miss.detail), miss.generalised ? el("p", {class: "what"}, "Compiled " + miss.generalised + ".") : null,
      el("p", {class: "advice"}, miss.advice)));
  }
}
