// The page around the graph: tabs, charts and tables. All text of the program goes into the document as textContent.
"use strict";
(() => {
  const block = (name) => document.getElementById(name);
  const summary = JSON.parse(block("summary").textContent);
  window.pageNonce = document.currentScript.nonce;

  async function read(name) {
    const packed = Uint8Array.from(atob(block(name).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }

  const SECTIONS = ["flops", "bytes", "seconds", "peak_bytes", "comm_bytes"];
  const METRICS = { seconds: "time (roofline)", flops: "FLOPs", bytes: "bytes accessed", peak_bytes: "held at the peak", comm_bytes: "bytes sent", count: "instructions" };
  const COLOURS = { compute: "#2563eb", memory: "#d97706", link: "#dc2626", launch: "#6b7280" };

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name === "class") made.className = value;
      else if (name.startsWith("aria-") || name === "role") made.setAttribute(name, value);
      else made[name] = value;
    }
    made.append(...children);
    return made;
  }

  const scaled = (value, steps, base) => {
    let step = 0;
    while (Math.abs(value) >= base && step < steps.length - 1) { value /= base; step += 1; }
    return (Math.abs(value) >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3)) + " " + steps[step];
  };
  const byteText = (value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
  const countText = (value) => scaled(value, ["", "k", "M", "G", "T", "P", "E"], 1000).trim();
  const timeText = (value) => value >= 1 ? value.toPrecision(4) + " s" : value >= 1e-3 ? (value * 1e3).toPrecision(4) + " ms" : (value * 1e6).toPrecision(4) + " µs";
  const textOf = (metric, value) => metric === "seconds" ? timeText(value) : metric.includes("bytes") ? byteText(value) : countText(value);

  function table(columns, rows) {
    const head = element("tr", {}, ...columns.map((name) => element("th", { textContent: name.replace(/^>/, ""), class: name.startsWith(">") ? "number" : "" })));
    const body = rows.map((row) => element("tr", {}, ...row.map((cell, column) =>
      element("td", { textContent: String(cell), title: String(cell), class: columns[column].startsWith(">") ? "number" : "" }))));
    return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  }

  const nothing = (what) => element("p", { textContent: what });

  // ---- costs by scope: a flame graph ----

  function scopeTree() {
    const root = { name: summary.module, children: new Map(), own: {}, parent: null };
    for (const [levels, count, ...numbers] of summary.scopes) {
      let node = root;
      for (const level of levels) {
        if (!node.children.has(level)) node.children.set(level, { name: level, children: new Map(), own: {}, parent: node });
        node = node.children.get(level);
      }
      node.own = Object.fromEntries([["count", count], ...SECTIONS.map((section, index) => [section, numbers[index]])]);
    }
    return root;
  }

  function sums(root, metric) {
    const total = new Map(), order = [root];
    for (const node of order) order.push(...node.children.values());
    for (const node of order.reverse()) {
      let sum = node.own[metric] || 0;
      for (const child of node.children.values()) sum += total.get(child);
      total.set(node, sum);
    }
    return total;
  }

  function showScopes(panel) {
    const root = scopeTree();
    const metrics = Object.keys(METRICS).filter((metric) => sums(root, metric).get(root) > 0);
    const choice = element("select", { ariaLabel: "what widths show" }, ...metrics.map((metric) => element("option", { value: metric, textContent: METRICS[metric] })));
    const flame = element("div", { class: "flame" }), rows = element("div");
    let focus = root;
    const draw = () => {
      const metric = choice.value, total = sums(root, metric), width = flame.clientWidth || 1200;
      const all = total.get(root) || 1;
      flame.replaceChildren();
      const path = [];
      for (let node = focus; node; node = node.parent) path.unshift(node);
      let deepest = 0;
      const add = (node, x, span, depth) => {
        deepest = Math.max(deepest, depth);
        const share = (100 * total.get(node) / all).toFixed(1) + " %";
        const bar = element("button", { textContent: node.name, title: `${node.name}\n${textOf(metric, total.get(node))}, ${share}`, onclick: () => { focus = node; draw(); } });
        bar.style.cssText = `left:${x}px;top:${depth * 20}px;width:${Math.max(span - 1, 1)}px;background:${colourOf(node.name)}`;
        flame.append(bar);
      };
      path.forEach((node, depth) => add(node, 0, width, depth));
      const pending = [[focus, 0, width, path.length - 1]];
      for (let next = 0; next < pending.length; next += 1) {
        const [node, left, span, depth] = pending[next];
        let x = left;
        const scale = span / (total.get(node) || 1);
        for (const child of [...node.children.values()].sort((a, b) => total.get(b) - total.get(a))) {
          const inner = total.get(child) * scale;
          if (inner < 1) break;
          add(child, x, inner, depth + 1);
          pending.push([child, x, inner, depth + 1]);
          x += inner;
        }
      }
      flame.style.height = (deepest + 1) * 20 + "px";
      const listed = [...focus.children.values()].sort((a, b) => total.get(b) - total.get(a)).slice(0, 200);
      const others = metrics.filter((other) => other !== metric), totals = others.map((other) => sums(root, other));
      rows.replaceChildren(table(["scope", ">" + METRICS[metric], ">share", ...others.map((other) => ">" + METRICS[other])],
        listed.map((node) => [node.name, textOf(metric, total.get(node)), (100 * total.get(node) / all).toFixed(1) + " %", ...others.map((other, index) => textOf(other, totals[index].get(node)))])));
    };
    choice.onchange = draw;
    panel.append(element("div", { class: "controls" }, element("label", { textContent: "widths: " }), choice, element("span", { textContent: "click a scope to zoom, an outer one to go back" })), flame, element("h2", { textContent: "inside it" }), rows);
    draw();
  }

  function colourOf(name) {
    let hash = 0;
    for (const letter of name.slice(0, 60)) hash = (hash * 31 + letter.codePointAt(0)) | 0;
    return `hsl(${20 + (Math.abs(hash) % 40)}, ${70 + (Math.abs(hash >> 8) % 20)}%, ${68 + (Math.abs(hash >> 16) % 14)}%)`;
  }

  // ---- memory ----

  function showMemory(panel) {
    const memory = summary.memory;
    if (!memory) return panel.append(nothing("Nothing is known of this module's memory."));
    panel.append(element("p", { textContent: `${byteText(memory.peak)} at the peak, when ${memory.peak_instruction || "nothing"} runs: arguments ${byteText(memory.arguments)}, outputs ${byteText(memory.outputs)} (of them aliased ${byteText(memory.aliases)}), temporaries ${byteText(memory.temporaries)}. Schedule: ${memory.schedule}.` }));
    const chart = element("div");
    panel.append(chart);
    const fixed = memory.arguments + memory.outputs - memory.aliases;
    new uPlot({
      width: Math.max(500, panel.clientWidth - 20), height: 260, title: "bytes in use while instructions run",
      scales: { x: { time: false }, y: { range: (plot, low, high) => [0, high * 1.05 || 1] } },
      series: [{ label: "instruction" }, { label: "all", stroke: "#2563eb", fill: "#bfdbfe", value: (plot, value) => value == null ? "" : byteText(value) },
        { label: "arguments and outputs", stroke: "#6b7280", value: (plot, value) => value == null ? "" : byteText(value) }],
      axes: [{}, { size: 80, values: (plot, values) => values.map(byteText) }],
    }, [memory.times, memory.sizes, memory.times.map(() => fixed)], chart);
    const all = memory.by_scope.reduce((sum, row) => sum + row[1], 0) || 1;
    panel.append(element("h2", { textContent: "live at the peak, by scope" }), bars(memory.by_scope.slice(0, 100), all, byteText));
    panel.append(element("h2", { textContent: `live at the peak: the largest of ${memory.buffer_count.toLocaleString()} buffers` }),
      table(["value", "computation", "opcode", "type", "scope", "source", "whose", ">bytes"], memory.buffers.map((row) => [...row.slice(0, 7), byteText(row[7])])));
  }

  function bars(rows, all, text) {
    const made = table(["scope", ">bytes", ">share", ""], rows.map(([name, value]) => [name, text(value), (100 * value / all).toFixed(1) + " %", ""]));
    made.querySelectorAll("tbody tr").forEach((line, index) => {
      const bar = element("span", { class: "bar" });
      bar.style.width = (200 * rows[index][1] / all).toFixed(1) + "px";
      line.lastChild.append(bar);
    });
    return made;
  }

  // ---- roofline ----

  function showRoofline(panel) {
    const roofline = summary.roofline;
    if (!roofline) return panel.append(nothing("Nothing is known of this module's time."));
    const total = roofline.seconds || 1;
    const bounds = Object.entries(roofline.bounds).map(([bound, seconds]) => `${bound} ${(100 * seconds / total).toFixed(1)} %`).join(", ");
    panel.append(element("p", { textContent: `${timeText(roofline.seconds)} on ${roofline.device}, an estimate: peak rates, nothing overlaps; ${roofline.is_fused ? "fusions as the compiler made them" : "fused by a simple model"}. Bound by: ${bounds}.` }));
    const points = roofline.points.filter((point) => point[0] > 0 && point[1] > 0).sort((a, b) => a[0] - b[0]);
    if (points.length) {
      const chart = element("div");
      panel.append(chart);
      const names = Object.keys(COLOURS), x = points.map((point) => point[0]);
      const ceiling = (rate) => x.map((intensity) => Math.min(rate, intensity * roofline.bandwidth));
      const text = (plot, value) => value == null ? "" : countText(value) + "FLOP/s";
      const hovered = element("p", { textContent: " " });
      new uPlot({
        width: Math.max(500, panel.clientWidth - 20), height: 340, title: "operations per second over operations per byte",
        scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
        series: [{ label: "FLOP/byte", value: (plot, value) => value == null ? "" : value.toPrecision(3) },
          ...names.map((bound) => ({ label: bound + "-bound", stroke: COLOURS[bound], paths: () => null, points: { show: true, size: 5, fill: COLOURS[bound] }, value: text })),
          ...Object.keys(roofline.rates).map((name) => ({ label: "matrix " + name, stroke: "#111827", dash: name === "f32" ? [4, 4] : [], points: { show: false }, value: text }))],
        axes: [{}, { size: 80, values: (plot, values) => values.map((value) => value == null ? "" : countText(value)) }],
        hooks: { setCursor: [(plot) => { const point = points[plot.cursor.idx]; if (point) hovered.textContent = `${point[4]} (${point[5]}, ${point[6]}): ${timeText(point[2])}, ${point[3]}-bound`; }] },
      }, [x, ...names.map((bound) => points.map((point) => point[3] === bound ? point[1] : null)), ...Object.values(roofline.rates).map(ceiling)], chart);
      panel.append(hovered);
    }
    panel.append(element("h2", { textContent: `what takes the time: the first of ${roofline.point_count.toLocaleString()}` }),
      table(["instruction", "opcode", "scope", ">time", ">share", "bound by", ">FLOP/byte"], roofline.points.slice(0, 300).map((point) => [point[4], point[5], point[6], timeText(point[2]), (100 * point[2] / total).toFixed(1) + " %", point[3], point[0]])));
  }

  // ---- collectives ----

  function showCollectives(panel) {
    if (!summary.collectives.length) return panel.append(nothing("The module has no collectives."));
    const totals = new Map();
    for (const row of summary.collectives) {
      const sum = totals.get(row[2]) || [0, 0];
      totals.set(row[2], [sum[0] + row[5], sum[1] + row[5] * (row[6] + row[7])]);
    }
    panel.append(element("h2", { textContent: "by opcode" }), table(["opcode", ">runs", ">sent by a device"], [...totals].map(([opcode, [runs, sent]]) => [opcode, runs.toLocaleString(), byteText(sent)])));
    panel.append(element("h2", { textContent: "all, by ring algorithms" }), table(["instruction", "computation", "opcode", "scope", ">group", ">runs", ">sent in a run", ">to or from the host", ">steps"],
      summary.collectives.map((row) => [...row.slice(0, 6), byteText(row[6]), byteText(row[7]), row[8]])));
  }

  // ---- changes between two modules ----

  function showChanges(panel) {
    const changes = summary.changes;
    panel.append(element("p", { textContent: `from ${changes.before} to ${summary.module}: ${changes.summary}` }));
    for (const note of changes.notes) panel.append(element("p", { class: "note", textContent: note }));
    const amount = (figure, value) => figure === "seconds" ? (value < 0 ? "-" + timeText(-value) : timeText(value)) : textOf(figure.includes("bytes") ? "bytes" : figure, value);
    if (changes.totals.length) panel.append(element("h2", { textContent: `costs, times on ${changes.device}` }),
      table(["figure", ">before", ">after", ">change"], changes.totals.map(([figure, ...values]) => [figure, ...values.map((value) => amount(figure, value))])));
    const figures = changes.totals.map(([figure]) => figure);
    if (changes.groups.length) panel.append(element("h2", { textContent: "change by scope" }),
      table(["scope", ...figures.map((figure) => ">" + figure)], changes.groups.map(([scope, ...values]) => [scope, ...values.map((value, index) => value ? amount(figures[index], value) : "")])));
    for (const { title, columns, rows, count } of changes.tables) {
      if (!count) continue;
      panel.append(element("h2", { textContent: rows.length < count ? `${title}: the first ${rows.length.toLocaleString()} of ${count.toLocaleString()}` : `${title}: ${count.toLocaleString()}` }), table(columns, rows));
    }
  }

  // ---- instructions ----

  const COLUMNS = ["name", "opcode", "type", "scope", "flops", "bytes", "seconds", "peak_bytes", "source"];
  const ROW = 22, MOST_USERS = 50;

  async function showInstructions(panel) {
    const graphs = await read("graphs");
    const rows = [], byId = new Map();
    for (const graph of graphs) for (const node of graph.nodes) {
      if (/ \(\d+\)$/.test(node.id)) continue; // a further clone of a constant
      const row = { node, graph: graph.id, name: "", hlo: "", source: "", flops: "", bytes: "", seconds: "", peak_bytes: "", opcode: node.label, scope: node.namespace, type: node.outputsMetadata[0].attrs[0].value };
      for (const { key, value } of node.attrs) if (typeof value === "string" && key in row) row[key] = value;
      row.name = (/^(?:ROOT )?%?([^ ]+)/.exec(row.hlo) || ["", node.id])[1];
      row.text = [row.name, row.opcode, row.type, row.scope, row.source, graph.id, (node.attrs.find((attribute) => attribute.key === "op_name") || { value: "" }).value].join("\n").toLowerCase();
      const fusion = node.attrs.find((attribute) => attribute.key === "fusion"), fusionHlo = node.attrs.find((attribute) => attribute.key === "fusion_hlo");
      if (fusion) { // the fusion is a group in the graph, and its root has its numbers: here each has a line
        rows.push({ ...row, name: fusion.value, opcode: "fusion", hlo: fusionHlo.value, text: `${row.text}\n${fusion.value}\nfusion`.toLowerCase() });
        for (const column of SECTIONS) row[column] = "";
      }
      rows.push(row);
      byId.set(node.id, row);
    }
    const users = new Map();
    for (const graph of graphs) for (const node of graph.nodes) for (const { sourceNodeId } of node.incomingEdges || []) {
      const source = sourceNodeId.replace(/ \(\d+\)$/, "");
      if (!users.has(source)) users.set(source, new Set());
      users.get(source).add(node.id);
    }
    const filter = element("input", { type: "search", placeholder: "filter: words that name, opcode, type, scope, source have", ariaLabel: "filter" });
    const count = element("span"), view = element("div", { class: "rows" }), space = element("div"), detail = element("div", { class: "detail" });
    const heading = element("div", { class: "row heading" }, ...COLUMNS.map((column) => element("span", { textContent: METRICS[column] || column, title: "sort", onclick: () => sortBy(column) })));
    detail.hidden = true;
    view.append(space);
    panel.append(element("div", { class: "list" }, element("div", { class: "controls" }, filter, count), heading, view, detail));
    let shown = rows, order = null, selected = null;
    const number = (text) => Number(text.replaceAll(",", "")) || 0;
    const draw = () => {
      const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 10), last = Math.min(shown.length, first + Math.ceil(view.clientHeight / ROW) + 20);
      space.style.height = shown.length * ROW + "px";
      space.replaceChildren(...shown.slice(first, last).map((row, index) => {
        const line = element("div", { class: row === selected ? "row selected" : "row", onclick: () => open(row) }, ...COLUMNS.map((column) =>
          element("span", { textContent: SECTIONS.includes(column) && row[column] ? textOf(column, number(row[column])) : row[column], title: row[column], class: SECTIONS.includes(column) ? "number" : "" })));
        line.style.top = (first + index) * ROW + "px";
        return line;
      }));
      count.textContent = `${shown.length.toLocaleString()} of ${rows.length.toLocaleString()} instructions; those that reductions apply to elements are not listed`;
    };
    const choose = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      shown = rows.filter((row) => words.every((word) => row.text.includes(word)));
      if (order) shown.sort((a, b) => SECTIONS.includes(order) ? number(b[order]) - number(a[order]) : a[order] < b[order] ? -1 : 1);
      view.scrollTop = 0;
      draw();
    };
    const sortBy = (column) => { order = column; choose(); };
    const open = (row) => {
      selected = row;
      const list = element("dl");
      const add = (key, ...content) => list.append(element("dt", { textContent: key }), element("dd", {}, ...content));
      add("computation", row.graph);
      add("scope", row.scope);
      const link = (id) => byId.has(id) ? element("button", { textContent: byId.get(id).name || id, onclick: () => open(byId.get(id)) }) : document.createTextNode(id + " ");
      for (const { key, value } of row.node.attrs) {
        if (key === "source_link") continue;
        const url = key === "source" && (row.node.attrs.find((attribute) => attribute.key === "source_link") || {}).value;
        if (url && /^[a-z-]+:/i.test(url) && !/^(javascript|data|vbscript):/i.test(url)) add(key, element("a", { href: url, textContent: value, target: "_blank", rel: "noopener noreferrer" }));
        else add(key, SECTIONS.includes(key) ? `${textOf(key, number(value))} (${value})` : value);
      }
      add("operands", ...(row.node.incomingEdges || []).map((edge) => link(edge.sourceNodeId.replace(/ \(\d+\)$/, ""))));
      add("users", ...[...(users.get(row.node.id) || [])].slice(0, MOST_USERS).map(link));
      detail.replaceChildren(list);
      detail.hidden = false;
      draw();
    };
    filter.oninput = choose;
    view.onscroll = draw;
    choose();
  }

  // ---- tabs ----

  const host = document.getElementById("page"), shadow = host.attachShadow({ mode: "open" });
  shadow.append(element("style", { textContent: block("styles").textContent }));
  const page = element("div", { class: "page" }), bar = element("header", { role: "tablist" }), main = element("main");
  const hasViewer = block("viewer") !== null;
  const tabs = { ...(hasViewer ? { Graph: null } : {}), ...(summary.changes ? { Changes: showChanges } : {}), "Costs by scope": showScopes, Memory: showMemory, Roofline: showRoofline, Collectives: showCollectives, Instructions: showInstructions };
  const panels = new Map(), buttons = new Map();
  const graph = document.getElementById("graph");

  async function select(name) {
    for (const [other, button] of buttons) button.setAttribute("aria-selected", String(other === name));
    const isGraph = name === "Graph";
    page.classList.toggle("over-graph", isGraph);
    graph.style.visibility = isGraph ? "visible" : "hidden"; // its size stays: the viewer may still be drawing
    if (isGraph) {
      if (!panels.has(name)) { panels.set(name, graph); await window.startViewer(graph, read, summary); }
      return;
    }
    for (const [other, panel] of panels) if (panel !== graph) panel.hidden = other !== name;
    if (!panels.has(name)) {
      const panel = element("section");
      panel.style.height = "100%";
      panels.set(name, panel);
      main.append(panel);
      for (const note of summary.notes) panel.append(element("p", { class: "note", textContent: "note: " + note }));
      await tabs[name](panel);
    }
  }

  bar.append(element("h1", { textContent: summary.module, title: summary.module }));
  for (const name of Object.keys(tabs)) {
    const button = element("button", { textContent: name, role: "tab", onclick: () => select(name) });
    buttons.set(name, button);
    bar.append(button);
  }
  const totals = summary.totals;
  bar.append(element("span", { class: "totals", textContent: [`${summary.instructions.toLocaleString()} instructions`,
    totals.FLOPs == null ? "" : (totals.is_lower_bound ? "at least " : "") + countText(totals.FLOPs) + "FLOP", totals.seconds == null ? "" : `${timeText(totals.seconds)} on ${totals.device}`,
    totals["peak memory"] == null ? "" : byteText(totals["peak memory"]) + " at the peak"].filter(Boolean).join(" · ") }));
  page.append(bar, main);
  shadow.append(page);
  document.title = summary.module + " - hloom";
  select(Object.keys(tabs)[0]);
})();
