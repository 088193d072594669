// Draws the figures of a report from the data beside them: those in view first, the others when the browser is idle.
// When chosen, before printing (always on white), and when the browser changes between light and dark, they are redrawn.
"use strict";
(() => {
  const LOOK = JSON.parse(document.getElementById("look").textContent);
  const LIGHT = {
    ink: "#22282e", soft: "#565f68", hair: "#e6e2d8", grey: "#5f5f5f", pale: "#cfcfcf", paper: "#ffffff", line: "#000000",
    spoke: "#c9c5ba", gap: "#ffffff",
  };
  const DARK = {
    ink: "#e8e6e1", soft: "#a9b0b7", hair: "#343a41", grey: "#8d949b", pale: "#4a5058", paper: "#1c2025", line: "#f2f2f2",
    spoke: "#59616a", gap: "#1c2025",
  };
  const LIGHTER = { "#7f3b08": "#d08a4e", "#5e3c99": "#a58ad6", "#0072b2": "#3f9fdb" }; // too dark to be seen on black
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let look = dark.matches ? DARK : LIGHT;
  const SANS = '"Segoe UI", "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif';
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "pentagon"];
  const PATTERNS = ["", "/", ".", "x"];
  const NEAR_TO_FAR = [[0, "#08306b"], [0.25, "#2171b5"], [0.5, "#6baed6"], [0.75, "#c6dbef"], [1, "#f7fbff"]];
  const EPISODE = { hoverformat: ",.0f", unifiedhovertitle: { text: "episode %{x:,.0f}" } };
  const NARROW = 540, AHEAD = "400px 0px";
  const MOST_NAMED = 30; // tasks or kept policies that are named beside a heat map
  const PRINTED = { curves: 580, shares: 580, map: 500, distance: 380 }; // two figures to a page
  const coarse = matchMedia("(pointer: coarse)").matches;

  // Plotly reads some HTML in texts: what comes from the data is shown as it is written, and not without end.
  const plain = (text, most = 60) => {
    const line = text.replace(/\s+/g, " ");
    const short = line.length > most ? line.slice(0, most - 1) + "\u2026" : line;
    return short.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  };
  const bytes = (packed) => Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0)).buffer;
  const floats = (packed) => new Float32Array(bytes(packed));
  const colour = (i) => {
    const hue = LOOK.colours[i % LOOK.colours.length];
    return look === DARK ? LIGHTER[hue] ?? hue : hue;
  };
  const dash = (i) => LOOK.dashes[i % LOOK.dashes.length];
  const faded = (hex) => hex + "33";
  const dashes = (lengths) => (lengths.length ? lengths.map((length) => length + "px").join(",") : "solid");
  const figureOf = (value) => Number(value.toPrecision(4)).toString();
  const called = (figure, i, width) => plain(figure.names[i] || "unnamed", width < NARROW ? 28 : 60);

  const axis = (title, more) => ({
    title: { text: plain(title), standoff: 10 }, automargin: true, gridcolor: look.hair, linecolor: look.soft, zeroline: false,
    showline: true, ticks: "outside", tickcolor: look.soft, ticklen: 4, fixedrange: coarse, ...more,
  });
  const layout = (width, height, more) => ({
    width, height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: look.paper, showlegend: false,
    margin: { l: 12, r: 14, t: 12, b: 12 }, dragmode: coarse ? false : "zoom",
    font: { family: SANS, size: width < NARROW ? 11 : 12.5, color: look.ink },
    hoverlabel: { bgcolor: look.paper, bordercolor: look.soft, align: "left", namelength: -1, font: { family: SANS, color: look.ink } },
    ...more,
  });
  const between = (low, value, high) => Math.max(low, Math.min(high, value));

  // Each kind of figure: its traces, its layout at a width, and its legend.

  function curves(figure, width, hidden) {
    const traces = [], legend = [];
    let styled = 0;
    for (const line of figure.lines) {
      const at = line.reference ? -1 : styled++;
      const hue = line.reference ? look.line : colour(at), strokes = line.reference ? [2, 3] : dash(at);
      const x = floats(line.episode || figure.lines[0].episode), mean = floats(line.mean), deviation = floats(line.deviation);
      const visible = !hidden.has(line.label);
      if (!line.reference && deviation.some((value) => value > 0)) {
        const ends = (sign) => Array.from(mean, (value, i) => value + sign * deviation[i]);
        traces.push({
          x: [...x, ...Array.from(x).reverse()], y: [...ends(1), ...ends(-1).reverse()], type: "scatter", mode: "none",
          fill: "toself", fillcolor: faded(hue), hoverinfo: "skip", visible,
        });
      }
      const band = line.reference ? "" : " \u00b1 %{customdata:.4g}";
      traces.push({
        x, y: mean, customdata: deviation, name: plain(line.label, 40), type: "scatter", visible,
        mode: x.length > 1 ? "lines" : "markers", line: { color: hue, width: 2, dash: dashes(strokes) },
        hovertemplate: "%{y:.4g}" + band + (width < NARROW ? "<br>episode %{x:,.0f}" : ""),
      });
      legend.push({ label: line.label, hue, strokes });
    }
    return {
      traces, legend,
      layout: layout(width, between(270, 0.5 * width, 440), {
        hovermode: width < NARROW ? "closest" : "x unified",
        xaxis: axis("episode", { ...EPISODE, rangemode: "tozero" }), yaxis: axis("mean return per episode"),
      }),
    };
  }

  function shares(figure, width, hidden) {
    const x = floats(figure.episode), traces = [], legend = [];
    let styled = 0;
    for (const arm of figure.arms) {
      const own = arm.label === "learner", rest = arm.label.startsWith("the others");
      const at = own || rest ? 0 : styled++;
      const hue = own ? look.grey : rest ? look.pale : colour(at);
      const pattern = own || rest ? "" : PATTERNS[Math.floor(at / LOOK.colours.length) % PATTERNS.length];
      // a share holds for its whole window: steps, no slopes between windows; a single window is a bar
      const drawn = x.length > 1
        ? { type: "scatter", mode: "lines", stackgroup: "all", line: { color: look.gap, width: 1, shape: "hvh" }, fillcolor: hue }
        : { type: "bar", marker: { color: hue } };
      traces.push({
        x, y: floats(arm.share), name: plain(arm.label, 40), ...drawn, visible: !hidden.has(arm.label),
        fillpattern: pattern && x.length > 1 ? { shape: pattern, bgcolor: hue, fgcolor: look.gap } : undefined,
        hovertemplate: "%{y:.1%}" + (width < NARROW ? "<br>episode %{x:,.0f}" : ""),
      });
      legend.push({ label: arm.label, hue, filled: true });
    }
    return {
      traces, legend,
      layout: layout(width, between(260, 0.46 * width, 380), {
        hovermode: width < NARROW ? "closest" : "x unified", barmode: "stack",
        xaxis: axis("episode", EPISODE),
        yaxis: axis("share of the episodes", { range: [0, 1], tickformat: ".0%" }),
      }),
    };
  }

  // Points at one place would hide each other: they are laid on a small spiral around it.
  function spread(x, y) {
    const reach = (values) => Math.max(...values) - Math.min(...values) || 1;
    const size = [reach(x), reach(y)], met = new Map(), out = { x: [], y: [] };
    for (let i = 0; i < x.length; i++) {
      const place = [x[i] / size[0], y[i] / size[1]].map((value) => Math.round(value * 250)).join();
      const n = met.get(place) || 0;
      met.set(place, n + 1);
      const radius = 0.013 * Math.sqrt(n), angle = 2.4 * n;
      out.x.push(x[i] + size[0] * radius * Math.cos(angle));
      out.y.push(y[i] + size[1] * radius * Math.sin(angle));
    }
    return out;
  }

  // A star to each cell: on the task that represents it, or, of a policy, in the middle of the tasks that it serves.
  function starsOf(figure, x, y) {
    const stars = new Map();
    figure.cells.forEach((cell, i) => {
      const star = stars.get(cell) ?? { cell, members: [] };
      star.members.push(i);
      stars.set(cell, star);
    });
    for (const star of stars.values()) {
      const at = figure.representatives ? [figure.representatives[star.members[0]]] : star.members;
      star.task = at[0];
      star.x = at.reduce((sum, i) => sum + x[i], 0) / at.length;
      star.y = at.reduce((sum, i) => sum + y[i], 0) / at.length;
    }
    return stars;
  }

  function map(figure, width) {
    const { x, y } = spread(floats(figure.x), floats(figure.y));
    const policy = (cell) => plain(figure.kept[cell], width < NARROW ? 18 : 40);
    const text = figure.names.map((_, i) => {
      const chosen = figure.representatives?.[i];
      const served = chosen === undefined ? `served by ${policy(figure.cells[i])}` : chosen === i ? "representative: itself"
        : `representative: ${called(figure, chosen, width)} (task ${figure.numbers[chosen]})`;
      return `<b>${called(figure, i, width)}</b><br>task ${figure.numbers[i]}, cell ${figure.cells[i]}<br>${served}`;
    });
    const stars = starsOf(figure, x, y), spokes = { x: [], y: [] };
    figure.cells.forEach((cell, i) => {
      spokes.x.push(x[i], stars.get(cell).x, null);
      spokes.y.push(y[i], stars.get(cell).y, null);
    });
    const kept = [...stars.values()], cells = [...stars.keys()];
    const starText = (star) => (figure.representatives ? text[star.task]
      : `<b>${policy(star.cell)}</b><br>kept, cell ${star.cell}<br>serves ${star.members.length} of the tasks`);
    const label = (star) => (figure.representatives ? String(star.cell) : policy(star.cell));
    const hues = figure.cells.map(colour), shapes = figure.cells.map((cell) => SYMBOLS[Math.floor(cell / LOOK.colours.length) % SYMBOLS.length]);
    return {
      traces: [
        { ...spokes, type: "scatter", mode: "lines", line: { color: look.spoke, width: 1 }, hoverinfo: "skip" },
        {
          x, y, text, type: "scatter", mode: "markers", hovertemplate: "%{text}<extra></extra>",
          marker: { color: hues, symbol: shapes, size: width < NARROW ? 6 : 8, opacity: 0.9, line: { color: look.gap, width: 0.8 } },
        },
        {
          x: kept.map((star) => star.x), y: kept.map((star) => star.y), hovertext: kept.map(starText), text: kept.map(label),
          type: "scatter", mode: "markers+text", hovertemplate: "%{hovertext}<extra></extra>", textposition: "top center",
          textfont: { size: width < NARROW ? 11 : 13, color: look.line }, cliponaxis: false,
          marker: { symbol: "star", size: width < NARROW ? 13 : 17, color: cells.map(colour), line: { color: look.line, width: 1.2 } },
        },
      ],
      legend: [],
      layout: layout(width, between(320, 0.66 * width, 560), {
        hovermode: "closest", xaxis: axis(figure.axes[0]), yaxis: axis(figure.axes[1]),
      }),
    };
  }

  function blocks(cells) {
    const found = [];
    cells.forEach((cell, i) => {
      if (i === 0 || cells[i - 1] !== cell) found.push({ cell, from: i, to: i });
      found[found.length - 1].to = i;
    });
    return found;
  }

  function distance(figure, width) {
    const directed = Boolean(figure.policies), n = figure.names.length, m = directed ? figure.policies.length : n;
    const steps = new Uint16Array(bytes(figure.values)), value = (i, j) => (figure.largest * steps[i * m + j]) / figure.steps;
    const tasks = figure.names.map((_, i) => `${called(figure, i, width)} (task ${figure.numbers[i]}, cell ${figure.cells[i]})`);
    const kept = new Set(figure.kept), policy = (j, most = 60) => plain(figure.policies[j], most);
    const columns = directed ? figure.policies.map((_, j) => policy(j) + (kept.has(j) ? " (kept)" : "")) : tasks;
    const rows = (entry) => tasks.map((_, i) => columns.map((__, j) => entry(i, j)));
    const joint = directed ? "<br>under " : "<br>and ", measure = directed ? "loss" : "distance";
    const parts = blocks(figure.cells);
    const edges = parts.slice(1).map((part) => part.from - 0.5);
    const line = (x0, x1, y0, y1) => ({ type: "line", x0, x1, y0, y1, line: { color: "#d55e00", width: 1 } });
    const across = edges.map((at) => line(-0.5, m - 0.5, at, at)), down = edges.map((at) => line(at, at, -0.5, n - 0.5));
    const shown = parts.filter((part) => (part.to - part.from + 1) / n > (width < NARROW ? 0.06 : 0.035));
    const ticks = { tickvals: shown.map((part) => (part.from + part.to) / 2), ticktext: shown.map((part) => String(part.cell)), tickangle: 0 };
    const side = { showgrid: false, constrain: "domain", ...ticks };
    const short = width < NARROW ? 14 : 40;
    const named = figure.kept.length <= MOST_NAMED ? figure.kept : [];
    const below = { tickvals: [...named], ticktext: named.map((j) => plain(figure.policy_labels[j], short)), tickangle: -60 };
    if (named.length === 1) { // or Plotly puts the title of the axis at minus infinity first, and the browser complains
      below.tickvals.push(m - 0.5);
      below.ticktext.push(" ");
    }
    const beside = n <= MOST_NAMED
      ? { tickvals: figure.names.map((_, i) => i), ticktext: figure.labels.map((name) => plain(name, short)) } : {};
    const mark = { y: 1, yref: "paper", yanchor: "bottom", text: "\u25bc", showarrow: false, font: { color: "#d55e00", size: 14 } };
    const annotations = figure.kept.map((x) => ({ ...mark, x }));
    const bar = { thickness: 10, outlinewidth: 0, title: { text: measure, side: directed ? "top" : "bottom" } };
    return {
      traces: [{
        type: "heatmap", z: rows(value), text: rows((i, j) => `${tasks[i]}${joint}${columns[j]}<br>${measure} ${figureOf(value(i, j))}`),
        hovertemplate: "%{text}<extra></extra>", zmin: 0, zmax: figure.largest || 1, colorscale: NEAR_TO_FAR,
        colorbar: directed ? bar : { ...bar, orientation: "h", len: 0.9, y: -0.13, yanchor: "top" },
      }],
      legend: [],
      layout: layout(width, directed ? between(300, (width * n) / m + 60, width + 60) : width + 60, {
        hovermode: "closest", shapes: directed ? across : [...across, ...down], annotations,
        ...(directed ? { margin: { l: 12, r: 14, t: 24, b: 12 } } : {}),
        xaxis: axis(directed ? "policy (\u25bc kept)" : "cell", { ...side, range: [-0.5, m - 0.5], ...(directed ? below : {}) }),
        yaxis: axis(directed && n <= MOST_NAMED ? "task, by cell" : "cell", {
          ...side, range: [n - 0.5, -0.5], ...(directed ? beside : { scaleanchor: "x" }),
        }),
      }),
    };
  }

  const KINDS = { curves, shares, map, distance };

  // A gallery: one place, several figures.

  class Gallery {
    constructor(node) {
      this.node = node;
      this.plot = node.querySelector(".plot");
      this.legend = node.querySelector(".legend");
      this.choice = node.querySelector("select");
      this.at = 0;
      this.hidden = new Set();
      this.width = 0; // 0: not drawn yet
      if (this.choice) this.choice.addEventListener("change", () => choose(this, Number(this.choice.value)));
    }

    get figures() {
      this.read ??= JSON.parse(document.getElementById(this.node.dataset.source).textContent);
      return this.read;
    }

    show(index) {
      this.at = index;
      this.hidden.clear();
      if (this.choice) this.choice.value = String(index);
      const figure = this.figures[index];
      this.node.querySelector("figcaption strong").textContent = figure.title;
      this.node.querySelector("figcaption span").textContent = figure.summary;
      if (this.width) this.draw(this.width);
    }

    draw(width) {
      const figure = this.figures[this.at];
      this.width = width;
      try {
        const drawn = KINDS[figure.kind](figure, width, this.hidden);
        Plotly.react(this.plot, drawn.traces, drawn.layout, { displayModeBar: false, scrollZoom: false });
        this.explain(drawn.legend);
      } catch (error) {
        this.plot.textContent = `This figure cannot be drawn here: ${error.message}`;
      }
    }

    fit() {
      const width = this.plot.clientWidth;
      if (width && width !== this.width) this.draw(width);
    }

    explain(entries) {
      const focused = [...this.legend.querySelectorAll("button")].indexOf(document.activeElement);
      this.legend.replaceChildren(...entries.map((entry) => this.entry(entry)));
      if (focused >= 0) this.legend.querySelectorAll("button")[focused]?.focus();
    }

    entry({ label, hue, strokes, filled }) {
      const item = document.createElement("li"), button = document.createElement("button");
      const shown = !this.hidden.has(label);
      button.type = "button";
      button.setAttribute("aria-pressed", String(shown));
      button.append(swatch(hue, strokes, filled), document.createTextNode(label));
      button.addEventListener("click", () => {
        this.hidden[shown ? "add" : "delete"](label);
        this.draw(this.width);
      });
      item.append(button);
      return item;
    }
  }

  function swatch(hue, strokes, filled) {
    const node = (name, given) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
      return made;
    };
    const box = node("svg", { width: filled ? 14 : 30, height: 12, "aria-hidden": "true" });
    box.append(filled
      ? node("rect", { x: 0, y: 0, width: 14, height: 12, fill: hue })
      : node("line", { x1: 0, x2: 30, y1: 6, y2: 6, stroke: hue, "stroke-width": 2.5, "stroke-dasharray": strokes.join(" ") }));
    return box;
  }

  const galleries = [...document.querySelectorAll(".gallery")].map((node) => new Gallery(node));

  // Figures of one section that have the same title are about the same: they are chosen together.
  function choose(gallery, index) {
    const title = gallery.figures[index].title, section = gallery.node.closest("section");
    gallery.show(index);
    for (const other of galleries) {
      if (other === gallery || !other.choice || other.node.closest("section") !== section) continue;
      const same = other.figures.findIndex((figure) => figure.title === title);
      if (same >= 0 && same !== other.at) other.show(same);
    }
  }

  document.documentElement.classList.add("scripted");
  const nodes = new Map(galleries.map((gallery) => [gallery.plot, gallery]));
  let printing = false;

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      if (!printing) nodes.get(entry.target).fit();
    }
  }, { rootMargin: AHEAD });
  const sized = new ResizeObserver((entries) => {
    if (printing) return;
    for (const entry of entries) {
      const gallery = nodes.get(entry.target);
      if (gallery.width) gallery.fit();
    }
  });
  galleries.forEach((gallery) => {
    seen.observe(gallery.plot);
    sized.observe(gallery.plot);
  });

  const print = () => {
    printing = true;
    look = LIGHT;
    galleries.forEach((gallery) => gallery.draw(PRINTED[gallery.figures[gallery.at].kind]));
  };
  const back = () => {
    printing = false;
    look = dark.matches ? DARK : LIGHT;
    galleries.forEach((gallery) => gallery.draw(gallery.plot.clientWidth));
  };
  dark.addEventListener("change", () => {
    if (printing) return;
    look = dark.matches ? DARK : LIGHT;
    galleries.filter((gallery) => gallery.width).forEach((gallery) => gallery.draw(gallery.width));
  });
  // Nobody should have to scroll for a figure to be there.
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  const rest = () => {
    const waiting = galleries.filter((gallery) => !gallery.width && gallery.plot.clientWidth);
    if (waiting.length && !printing) waiting.shift().fit();
    if (waiting.length) idle(rest);
  };
  idle(rest);
  addEventListener("beforeprint", print);
  addEventListener("afterprint", back);
})();
