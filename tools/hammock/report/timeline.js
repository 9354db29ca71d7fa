// Spans by thread, on a canvas.

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
  const paint = {g, width, height, toX: (us) => (us - clock.from) / (clock.to - clock.from) * width,
    ink: style("--ink"), muted: style("--muted"), line: style("--line"), panel: style("--panel"), warn: style("--warn"),
    colours: Object.fromEntries(Object.entries(colour).map(([name, variable]) => [name, style(variable)]))};
  g.fillStyle = paint.panel;
  g.fillRect(0, 0, width, height);
  g.font = "12px system-ui, sans-serif";
  g.textBaseline = "middle";
  const step = axisStep(clock.to - clock.from, width), ticks = [];
  for (let t = Math.ceil(clock.from / step) * step; t < clock.to; t += step) ticks.push(t);
  drawGrid(paint, ticks);
  for (const row of clock.rows) drawThread(paint, row);
  drawAxis(paint, ticks);
  if (!data.threads.length) { g.fillStyle = paint.muted; g.fillText("The profile has no spans.", 20, 60); }
}

function drawGrid({g, height, toX, line}, ticks) {
  g.strokeStyle = line;
  for (const t of ticks) {
    const x = Math.round(toX(t)) + .5;
    g.beginPath(); g.moveTo(x, axis); g.lineTo(x, height); g.stroke();
  }
}

function drawThread(paint, row) {
  const {g, toX} = paint, top = row.y - clock.scroll, last = [];
  g.fillStyle = paint.muted;
  g.fillText(row.thread.name, 8, top - 9);
  for (const span of row.thread.spans) {
    const [, , start, duration, depth] = span;
    if (start > clock.to || start + duration < clock.from) continue;
    const x = toX(start), w = Math.max(1, toX(start + duration) - x);
    // What would cover the same pixels is drawn once.
    if (last[depth] !== undefined && x + w < last[depth] + .5) continue;
    last[depth] = x + w;
    drawSpan(paint, span, x, top + depth * lane, w);
  }
}

function drawSpan({g, width, ink, colours}, span, x, y, w) {
  const [category, name] = span;
  g.fillStyle = colours[category] || colours.program;
  g.fillRect(x, y, w > 3 ? w - .6 : w, lane - 2);
  if (span === clock.picked) {
    g.strokeStyle = ink; g.lineWidth = 2; g.strokeRect(x, y, w, lane - 2); g.lineWidth = 1;
  }
  const left = Math.max(x, 0), room = Math.min(x + w, width) - left;
  if (room <= 34) return;
  g.save();
  g.beginPath(); g.rect(left, y, room - 4, lane); g.clip();
  g.fillStyle = ["sync", "pass", "cache"].includes(category) ? ink : "#fff";
  g.fillText(name, left + 5, y + lane / 2 - .5);
  g.restore();
}

/// Times, and a mark for each compile, above all that is scrolled.
function drawAxis({g, width, toX, muted, line, panel, warn}, ticks) {
  g.fillStyle = panel;
  g.fillRect(0, 0, width, axis);
  g.strokeStyle = line;
  g.beginPath(); g.moveTo(0, axis + .5); g.lineTo(width, axis + .5); g.stroke();
  g.fillStyle = muted;
  for (const t of ticks) g.fillText(t === 0 ? "0" : time(t), toX(t) + 4, axis / 2);
  g.fillStyle = warn;
  for (const miss of data.misses) {
    const x = toX(miss.time);
    g.beginPath(); g.moveTo(x, axis); g.lineTo(x - 5, axis - 9); g.lineTo(x + 5, axis - 9); g.fill();
  }
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
