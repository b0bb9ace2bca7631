"use strict";
// The operator's page: asks for stats.json once a second and draws what comes. No library, nothing from elsewhere.
(() => {
const keep = 300, span = keep * 1000, every = 1000;
const $ = (id) => document.getElementById(id);
const svgNS = "http://www.w3.org/2000/svg";

function node(name, attributes, ...children) {
  const n = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) if (v !== undefined && v !== false) n.setAttribute(k, v === true ? "" : v);
  n.append(...children);
  return n;
}
function shape(name, attributes) {
  const n = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attributes)) n.setAttribute(k, v);
  return n;
}
function setText(n, text) { if (n.textContent !== text) n.textContent = text; }

// How values are shown.
function count(v) {
  if (v >= 1e9) return (v / 1e9).toFixed(2) + " G";
  if (v >= 1e6) return (v / 1e6).toFixed(2) + " M";
  if (v >= 1e4) return (v / 1e3).toFixed(1) + " k";
  return v >= 100 || Number.isInteger(v) ? String(Math.round(v)) : v.toFixed(1);
}
function bytes(v) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024]]) if (v >= size) return (v / size).toFixed(1) + " " + unit;
  return Math.round(v) + " B";
}
function micros(v) {
  if (v >= 1e6) return (v / 1e6).toFixed(2) + " s";
  if (v >= 1e3) return (v / 1e3).toFixed(1) + " ms";
  return Math.round(v) + " µs";
}
function seconds(v) {
  if (v >= 86400) return Math.floor(v / 86400) + " d " + Math.floor(v % 86400 / 3600) + " h";
  if (v >= 3600) return Math.floor(v / 3600) + " h " + Math.floor(v % 3600 / 60) + " min";
  if (v >= 60) return Math.floor(v / 60) + " min " + Math.floor(v % 60) + " s";
  return v >= 10 ? Math.floor(v) + " s" : v.toFixed(1) + " s";
}
const rate = (v) => bytes(v) + "/s";
const perSecond = (v) => count(v) + "/s";

// A round number that is not below v.
function roundUp(v, binary) {
  const base = binary ? 2 ** Math.floor(Math.log2(v)) : 10 ** Math.floor(Math.log10(v));
  for (const m of binary ? [1, 1.5, 2] : [1, 2, 5, 10]) if (m * base >= v) return m * base;
  return v;
}

const chartKinds = [
  {title: "Connections", show: count, series: [["open", "connections"]]},
  {title: "Requests per second", show: count, series: [["requests", "requests_s"], ["accepted connections", "accepted_s"]]},
  {title: "Bytes per second", show: bytes, binary: true, series: [["in", "bytes_in_s"], ["out", "bytes_out_s"]]},
  {title: "Loop lag, worst loop", show: micros, least: 100, series: [["p99", "lag_p99_us"], ["p95", "lag_p95_us"], ["p50", "lag_p50_us"]]},
  {title: "Queue depths", show: count, series: [["tasks of loops", "task_queue"], ["waiting for a pool", "pool_queued"]]},
  {title: "Executors", show: count, series: [["running", "pool_running"], ["rejected per second", "pool_rejected_s"]]},
  {title: "Bytes held for connections", show: bytes, binary: true, series: [["queued out", "outbound_bytes"], ["not decoded", "inbound_bytes"]]},
  {title: "Closes per second", show: count, series: [["all reasons", "closes"]]},
];

const W = 360, H = 130, left = 52, top = 8, right = 6, bottom = 18;
class Chart {
  constructor(kind) {
    this.kind = kind;
    this.at = null; // the sample that is read, by its seq; null = the latest
    this.svg = shape("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", tabindex: "0"});
    this.axis = [0, 0.5, 1].map((part) => {
      const y = top + (1 - part) * (H - top - bottom);
      this.svg.append(shape("line", {class: "grid", x1: left, x2: W - right, y1: y, y2: y}));
      const label = shape("text", {class: "axis", x: left - 4, y: y + 4, "text-anchor": "end"});
      this.svg.append(label);
      return label;
    });
    for (const [x, text, anchor] of [[left, "−5 min", "start"], [W - right, "now", "end"]]) {
      const label = shape("text", {class: "axis", x, y: H - 4, "text-anchor": anchor});
      label.textContent = text;
      this.svg.append(label);
    }
    this.curves = kind.series.map((_, i) => this.svg.appendChild(shape("path", {class: `curve c${i + 1}`, d: ""})));
    this.cursor = this.svg.appendChild(shape("line", {class: "cursor", y1: top, y2: H - bottom, visibility: "hidden"}));
    const caption = node("figcaption");
    this.values = kind.series.map(([name], i) => {
      const sign = shape("svg", {viewBox: "0 0 24 10", "aria-hidden": "true"});
      sign.append(shape("path", {class: `curve c${i + 1}`, d: "M0 5H24"}));
      const value = node("span");
      caption.append(node("span", {class: "key"}, sign, name + ":", value));
      return value;
    });
    this.when = caption.appendChild(node("span", {role: "status"}));
    this.figure = node("figure", {}, node("h3", {}, kind.title), this.svg, caption);
    this.svg.addEventListener("keydown", (e) => this.key(e));
    this.svg.addEventListener("pointermove", (e) => this.point(e));
    for (const name of ["pointerleave", "blur"]) this.svg.addEventListener(name, () => this.read(null));
  }
  value(sample, field) { return field === "closes" ? Object.values(sample.closed || {}).reduce((a, b) => a + b, 0) : sample[field]; }
  x(sample) { return left + (1 - (this.end - sample.at) / span) * (W - left - right); }
  read(sample) { this.at = sample && sample.seq; this.draw(); }
  key(e) {
    const all = samples;
    if (!all.length) return;
    let i = this.at === null ? all.length - 1 : Math.max(0, all.findIndex((s) => s.seq === this.at));
    const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -keep, End: keep}[e.key];
    if (e.key === "Escape") return this.read(null);
    if (!step) return;
    e.preventDefault();
    i = Math.min(all.length - 1, Math.max(0, i + step));
    this.read(all[i]);
  }
  point(e) {
    const box = this.svg.getBoundingClientRect(), x = (e.clientX - box.left) / box.width * W;
    let best = null;
    for (const s of samples) if (!best || Math.abs(this.x(s) - x) < Math.abs(this.x(best) - x)) best = s;
    this.read(x < left ? null : best);
  }
  draw() {
    if (!samples.length) return;
    const latest = samples[samples.length - 1];
    this.end = latest.at;
    let most = 0;
    for (const s of samples) for (const [, field] of this.kind.series) most = Math.max(most, this.value(s, field));
    most = roundUp(Math.max(most, this.kind.least || (this.kind.binary ? 1024 : 1)), this.kind.binary);
    this.axis.forEach((label, i) => setText(label, this.kind.show(most * i / 2)));
    this.kind.series.forEach(([, field], i) => {
      let d = "", before = 0;
      for (const s of samples) {
        const y = top + (1 - this.value(s, field) / most) * (H - top - bottom);
        d += (s.at - before > 5 * every ? "M" : "L") + this.x(s).toFixed(1) + " " + y.toFixed(1);
        before = s.at;
      }
      this.curves[i].setAttribute("d", d);
    });
    const shown = (this.at !== null && samples.find((s) => s.seq === this.at)) || latest;
    this.kind.series.forEach(([, field], i) => setText(this.values[i], this.kind.show(this.value(shown, field))));
    this.cursor.setAttribute("visibility", shown === latest ? "hidden" : "visible");
    this.cursor.setAttribute("x1", this.x(shown));
    this.cursor.setAttribute("x2", this.x(shown));
    const words = this.kind.series.map(([name, field]) => `${name} ${this.kind.show(this.value(shown, field))}`).join(", ");
    const ago = Math.round((latest.at - shown.at) / 1000);
    setText(this.when, this.at === null ? "" : ago ? `${ago} s ago` : "now");
    const label = `${this.kind.title}: ${words}${ago ? `, ${ago} seconds ago` : ""}; most ${this.kind.show(most)}`;
    if (this.at !== null || document.activeElement !== this.svg) this.svg.setAttribute("aria-label", label); // a reader is not interrupted each second
  }
}

let samples = [], seq = 0, uptime = 0, paused = false, timer = 0;
const charts = chartKinds.map((kind) => new Chart(kind));
$("charts").append(...charts.map((c) => c.figure));

// rows keeps a table's rows in step with a list: cells that did not change are left alone, and with them the focus.
function rows(body, list, none) {
  if (!list.length) { body.replaceChildren(node("tr", {}, node("td", {class: "empty", colspan: 20}, none))); return; }
  if (body.querySelector(".empty")) body.replaceChildren();
  while (body.rows.length > list.length) body.lastChild.remove();
  list.forEach((cells, i) => {
    const row = body.rows[i] || body.appendChild(node("tr"));
    cells.forEach((cell, k) => {
      let td = row.cells[k];
      if (!td) td = row.appendChild(node(k ? "td" : "th", k ? {} : {scope: "row"}));
      if (cell instanceof Node) { if (td.firstChild !== cell) td.replaceChildren(cell); return; }
      const [text, kind] = Array.isArray(cell) ? cell : [cell, ""];
      if (td.className !== kind) td.className = kind;
      setText(td, text);
    });
  });
}
const n = (text) => [text, "n"];

function figures(s, all) {
  const budgets = all.servers.map((x) => x.memory_budget_bytes), budget = budgets.every((b) => b > 0) ? budgets.reduce((a, b) => a + b, 0) : 0;
  const list = [
    ["Connections", count(s.connections)], ["Requests", perSecond(s.requests_s)], ["In", rate(s.bytes_in_s)], ["Out", rate(s.bytes_out_s)],
    ["Lag p99", micros(s.lag_p99_us)], ["Busiest loop", Math.round(100 * s.utilisation) + " %"], ["Queued", count(s.task_queue + s.pool_queued)], ["Held" + (budget ? " of " + bytes(budget) : ""), bytes(s.outbound_bytes + s.inbound_bytes)], ["Up", seconds(all.servers[0] ? all.servers[0].uptime_seconds : all.uptime_seconds)],
  ];
  const dl = $("now");
  while (dl.children.length < list.length) dl.append(node("div", {}, node("dt"), node("dd")));
  list.forEach(([name, value], i) => { setText(dl.children[i].firstChild, name); setText(dl.children[i].lastChild, value); });
}

function closes(all) {
  const total = {}, recent = {};
  for (const s of all.servers) for (const [r, c] of Object.entries(s.closed)) total[r] = (total[r] || 0) + c;
  for (const s of samples) for (const [r, c] of Object.entries(s.closed || {})) recent[r] = (recent[r] || 0) + c;
  const names = Object.keys(total).sort((a, b) => total[b] - total[a] || (a < b ? -1 : 1)), sum = Object.values(total).reduce((a, b) => a + b, 0);
  rows($("closes").tBodies[0], names.map((r) => {
    const bar = shape("svg", {viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": (100 * total[r] / sum).toFixed(1) + " %"});
    bar.append(shape("rect", {class: "share", width: 100 * total[r] / sum, height: 10}));
    return [r, n(count(total[r])), n(count(recent[r] || 0)), bar];
  }), "No connection has ended yet.");
}

function tables(all) {
  rows($("loops").tBodies[0], all.servers.flatMap((s) => s.loops.map((l) => [
    `${s.name} ${l.name}${l.healthy ? "" : " (its poller fails)"}`, n(count(l.active)), n(Math.round(100 * l.utilisation) + " %"), n(micros(l.lag_p50_us)), n(micros(l.lag_p99_us)), n(micros(l.lag_max_us)),
    n(count(l.task_queue)), n(bytes(l.outbound_bytes)), n(count(l.stalls)), n(count(l.panics)),
  ])), "No server is watched.");
  rows($("pools").tBodies[0], all.pools.map((p) => [
    p.name, n(`${p.running} of ${p.max_workers}`), n(`${count(p.queued)} of ${count(p.max_queue)}`), n(`${count(p.parked)} of ${count(p.max_parked)}`), n(count(p.completed)), n(count(p.rejected)), n(count(p.exhausted)), n(count(p.panics)),
  ]), "No pool is watched.");
  $("lanes").closest("section").hidden = !all.lanes.length;
  rows($("lanes").tBodies[0], all.lanes.map((l) => [
    `${l.set} ${l.name}`, n(count(l.workers)), n(`${count(l.queued)} of ${count(l.capacity)}`), n(count(l.spilled)), n(count(l.done)), n(count(l.rejected)), n(count(l.waited)), n(count(l.lost)), n(count(l.panics)), [l.fault || "", "wide"],
  ]), "No lanes are watched.");
  $("overload").closest("section").hidden = !all.overload.length;
  const whole = (text) => text.replaceAll(" ", "\u00a0"); // lines do not break in it
  rows($("overload").tBodies[0], all.overload.map((o) => [
    o.name, o.grade === "none" ? o.grade : [`${o.grade}${o.source && ` (${o.source})`}`, "wrong"],
    [o.sources.map((s) => s.error ? `${s.name}: ${s.error}` : whole(`${s.name} ${Math.round(100 * s.pressure)} %`)).join(", "), "wide"],
    [o.actions.map((a) => `${a.name}\u00a0${a.began}${a.active ? whole(" (in force)") : ""}`).join(", "), "wide"],
  ]), "No overload manager is watched.");
  const select = $("server"), names = all.servers.map((s) => s.name);
  if (select.options.length !== names.length + 1) select.replaceChildren(node("option", {value: ""}, "all"), ...names.map((name) => node("option", {}, name)));
  const p = all.process;
  setText($("process"), `Process ${p.pid}, ${p.go}, ${p.gomaxprocs} processors, ${count(p.goroutines)} goroutines, ${bytes(p.heap_bytes)} of objects, ${bytes(p.memory_bytes)} from the system`);
}

function state(kind, word, why) {
  const badge = $("badge");
  if (badge.className !== "badge " + kind) badge.className = "badge " + kind;
  setText(badge, word);
  setText($("why"), why);
}

async function poll() {
  timer = 0;
  try {
    const answer = await fetch(`stats.json?since=${seq}`, {signal: AbortSignal.timeout(10000)});
    if (answer.status === 401) { location.href = "login"; return; }
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const all = await answer.json();
    if (all.uptime_seconds < uptime) { // another process
      samples = []; seq = 0; uptime = 0;
      return;
    }
    uptime = all.uptime_seconds;
    samples.push(...all.samples.filter((s) => s.seq > seq));
    samples = samples.slice(-keep);
    if (samples.length) seq = samples[samples.length - 1].seq;
    if (all.ready) state("good", "ready", "");
    else state("bad", "not ready", (all.reasons || []).map((r) => `${r.check}: ${r.why}`).join("; "));
    if (samples.length) figures(samples[samples.length - 1], all);
    for (const c of charts) c.draw();
    closes(all);
    tables(all);
    await slowest();
    document.body.dataset.seq = seq;
  } catch (e) {
    state("warn", "no answer", `asking again (${e.message})`);
  } finally {
    again();
  }
}
// The slowest requests: each leads to the page of its stages.
async function slowest() {
  const answer = await fetch("traces", {signal: AbortSignal.timeout(10000)});
  if (!answer.ok) return;
  const all = await answer.json();
  $("traces").hidden = !all.watched;
  const links = $("slowest").tBodies[0].querySelectorAll("a");
  rows($("slowest").tBodies[0], all.traces.map((t, i) => {
    const href = `traces/${encodeURIComponent(t.recorder)}/${t.number}/page`;
    const link = links[i] && links[i].getAttribute("href") === href ? links[i] : node("a", {href}, t.name);
    setText(link, t.name);
    return [link, n(micros(t.seconds * 1e6)), t.reason, t.failed || "", t.recorder, t.protocol, t.peer, t.began.slice(0, 19).replace("T", " ")];
  }), "no sampled request has ended lately");
}
function again() { if (!timer && !paused && !document.hidden) timer = setTimeout(poll, every); }
document.addEventListener("visibilitychange", again);
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
  setText($("pause"), paused ? "Go on" : "Pause");
  clearTimeout(timer);
  timer = 0;
  again();
});

// The table of connections.
const limit = 50;
let offset = 0;
const heads = {
  open: ["Peer", "Server", "State", "Queued", "Unread", "In flight", "Idle", "Loop", "Tenant", "Id", "Close"],
  ended: ["Peer", "Server", "Reason", "Ended", "Cause", "Tenant", "Id"],
};
const numeric = new Set(["Queued", "Unread", "In flight", "Idle", "Ended"]);
function line(c, ended) {
  if (ended) return [c.peer, c.server, c.reason, n(seconds(c.ago_seconds || 0) + " ago"), [c.cause || "", "wide"], c.tenant || "", c.id];
  const close = node("button", {type: "button", "aria-label": `Close ${c.peer}, ${c.id}`}, "Close");
  close.addEventListener("click", () => end(c));
  const marks = (c.read_paused ? ", reads paused" : "") + (c.unwritable ? ", unwritable" : "") + (c.reason ? `, ${c.reason}` : "");
  return [c.peer, c.server, c.state + marks, n(bytes(c.queued)), n(bytes(c.unread)), n(String(c.in_flight)), n(seconds(c.idle_seconds)), c.loop, c.tenant || "", c.id, close];
}
async function find() {
  const ask = new URLSearchParams({limit, offset});
  for (const [k, v] of new FormData($("filter"))) if (v.trim()) ask.set(k, v.trim());
  const said = $("found");
  try {
    const answer = await fetch("connections?" + ask, {signal: AbortSignal.timeout(15000)});
    if (answer.status === 401) { location.href = "login"; return; }
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    const ended = ask.get("closed") === "1", head = ended ? heads.ended : heads.open;
    $("table").tHead.replaceChildren(node("tr", {}, ...head.map((h) => node("th", {scope: "col", class: numeric.has(h) ? "n" : false}, h))));
    $("table").tBodies[0].replaceChildren();
    rows($("table").tBodies[0], found.connections.map((c) => line(c, ended)), "No connection matches.");
    const last = offset + found.connections.length;
    setText(said, `${found.matched} of ${found.looked} match${found.connections.length ? `, rows ${offset + 1} to ${last}` : ""}${found.errors ? "; " + found.errors.join("; ") : ""}`);
    $("before").disabled = offset === 0;
    $("after").disabled = last >= found.matched;
  } catch (e) {
    setText(said, "Not found out: " + e.message);
  }
}
async function change(method, path, body) {
  const answer = await fetch(path, {method, headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}
async function end(c) {
  if (!confirm(`Close the connection of ${c.peer} (${c.id})? What is queued for it is lost.`)) return;
  try {
    await change("POST", "connections/close", {server: c.server, id: c.id});
    await find();
    setText($("found"), `${c.peer} was closed. ` + $("found").textContent);
  } catch (e) {
    setText($("found"), "Not closed: " + e.message);
  }
}
$("filter").addEventListener("submit", (e) => { e.preventDefault(); offset = 0; find(); });
$("before").addEventListener("click", () => { offset = Math.max(0, offset - limit); find(); });
$("after").addEventListener("click", () => { offset += limit; find(); });

// The log level, if the program lets it be changed.
(async () => {
  const answer = await fetch("loglevel");
  if (!answer.ok) return;
  const select = $("level").elements.level, set = (value) => {
    if (![...select.options].some((o) => o.value === value)) select.append(node("option", {}, value));
    select.value = value;
  };
  set((await answer.json()).level);
  $("level").hidden = false;
  $("level").addEventListener("submit", (e) => e.preventDefault());
  select.addEventListener("change", async () => {
    try {
      set((await change("PUT", "loglevel", {level: select.value})).level);
      $("level-said").value = "set";
    } catch (e) {
      $("level-said").value = "not set: " + e.message;
    }
  });
})();

poll();
find();
})();
