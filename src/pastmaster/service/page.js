"use strict";
// Names come from anywhere: everything is set as text, nothing as HTML.
const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "path", "rect", "line"]);
const MOST_TASKS = 50;
const MOST_ARMS = 12;
const MOST_BATCHES = 3; // that are named in a chart
const ROOM = 0.4; // of a chart's width, for the name of a batch
const SILENCE = 10000; // milliseconds without an event after which the service counts as away
const LOST = "no answer, trying again";
const status = document.getElementById("status");
const login = document.getElementById("login");
const field = document.getElementById("token");
const button = login.querySelector("button");
const main = document.getElementById("tasks");
let token = "";
let seen = null; // when the tasks were received that are shown

function make(name, attributes = {}, ...children) {
  const node = DRAWN.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// A drawing as wide and as high as its place. Its lines keep their width.
function drawing(width, height, ...children) {
  const shape = {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true"};
  return make("svg", shape, ...children);
}

const whole = (n) => n.toLocaleString("en-US");
const part = (x) => x > 0 && x < 0.01 ? "<1%" : `${Math.round(100 * x)}%`;

function short(x) {
  const size = Math.abs(x);
  if (x === null) return "–";
  if (x === 0) return "0";
  if (size >= 1e6) return x.toExponential(2);
  if (size >= 999.5) return whole(Math.round(x));
  if (size >= 0.1) return x.toPrecision(3);
  return size >= 0.001 ? x.toFixed(3) : x.toExponential(0);
}

function left(seconds) {
  if (seconds >= 5400) return `${Math.round(seconds / 3600)} h`;
  return seconds >= 90 ? `${Math.round(seconds / 60)} min` : `${Math.ceil(seconds)} s`;
}

// Axes

// Round numbers from low to high, about so many, and how many digits they need.
function ticks(low, high, most) {
  const least = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= least * 0.999);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-6); k * step <= high + 1e-6 * step; k += 1) {
    values.push(k * step + 0); // + 0: no -0
  }
  return {step, values};
}

function tickText(value, step) {
  const power = (x) => Math.floor(Math.log10(x) + 1e-9);
  const digits = Math.max(0, -power(step));
  const size = Math.abs(value);
  if (value === 0) return (0).toFixed(digits <= 5 ? digits : 0);
  const exact = Math.max(0, power(size) - power(step)); // digits after the first
  if (size >= 1e15 || digits > 5) return value.toExponential(Math.min(6, exact));
  if (step >= 1000) {
    return value.toLocaleString("en-US", {notation: "compact", maximumSignificantDigits: exact + 1});
  }
  return value.toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

// Round ends around a range, about so many steps apart: what an axis shows.
function range(low, high, most) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  const differ = high - low > 1e-9 * size;
  const room = differ ? 0 : size / 10 || 0.5;
  const {step} = ticks(low - room, high + room, most);
  const first = Math.floor((low - room) / step + 1e-6);
  const last = Math.ceil((high + room) / step - 1e-6);
  return {low: first * step + 0, high: last * step + 0, step};
}

// The numbers of an axis. The hidden ones make room for them.
function axisNumbers(kind, marks) {
  const box = make("div", {class: `ticks ${kind}`, "aria-hidden": "true"});
  for (const {text, at} of marks) {
    const label = make("span", {}, text);
    label.style[kind === "y" ? "top" : "left"] = `${100 * at}%`;
    box.append(make("i", {}, text), label);
  }
  return box;
}

// Parts of a task

function count(label, value, title = "") {
  return make("span", title ? {title} : {}, make("b", {}, whole(value)), ` ${label}`);
}

function counts(task) {
  const late = task.next_to_expire.filter((one) => one.late).length;
  const more = late === task.next_to_expire.length && late < task.open; // it lists some of the open ones
  const open = count("open", task.open);
  if (late) {
    open.append(` (${late}${more ? "+" : ""} late)`);
  }
  const expired = count("expired", task.expired, "their lease was over before they were told");
  if (task.expired) {
    expired.append(make("span", {class: "quiet"}, ` (${expiredCounts(task)})`));
  }
  const told = count("told", task.told, "a client told their return");
  return make("p", {class: "counts"}, count("asked", task.asked), told, open, expired,
    count("cancelled", task.cancelled));
}

function expiredCounts(task) {
  const {expired_return: value} = task;
  return value === null ? "not counted" : `each counts as ${Number(value.toPrecision(3))}`;
}

// Who the arms are, before there is anything to say about them.
function names(task) {
  const listed = task.arms.slice(0, MOST_ARMS).map((arm) => arm.name);
  const more = task.arms.length - listed.length;
  return `Arms: ${listed.join(", ")}${more ? ` and ${whole(more)} more` : ""}.`;
}

function verdict(task) {
  if (task.best === null) {
    return make("p", {class: "best"}, "There is no return yet. ", make("span", {class: "quiet"}, names(task)));
  }
  const arm = task.arms[task.best.arm];
  const words = task.best.certain
    ? "Its interval is above all others: it is the one to keep."
    : "Its interval overlaps others: not certain yet.";
  return make("p", {class: "best"}, "Best so far: ", make("b", {}, arm.name), ` returns ${short(arm.mean)} on average. `,
    make("span", {class: "quiet"}, words));
}

function head(task) {
  const title = make("div", {class: "title"}, make("h2", {}, task.name),
    make("span", {class: "quiet"}, task.selector));
  return make("div", {class: "head"}, title, counts(task), verdict(task));
}

function interval(arm, axis) {
  const svg = drawing(100, 14);
  svg.setAttribute("height", 14);
  const x = (value) => 100 * (value - axis.low) / (axis.high - axis.low);
  if (arm.mean !== null) {
    svg.append(make("line", {class: "range", x1: x(arm.lower), x2: x(arm.upper), y1: 7, y2: 7}),
      make("line", {class: "mean", x1: x(arm.mean), x2: x(arm.mean), y1: 2, y2: 12}));
  }
  return svg;
}

function share(arm) {
  const svg = drawing(100, 14, make("rect", {class: "bar", x: 0, y: 1, width: 100 * arm.share, height: 12}));
  svg.setAttribute("height", 14);
  return svg;
}

function arms(task) {
  const rows = task.arms.map((arm, i) => ({...arm, i}));
  rows.sort((a, b) => b.share - a.share || a.i - b.i);
  const known = task.arms.filter((arm) => arm.mean !== null);
  const axis = range(Math.min(...known.map((arm) => arm.lower)), Math.max(...known.map((arm) => arm.upper)), 8);
  const body = make("tbody");
  for (const arm of rows.slice(0, MOST_ARMS)) {
    body.append(make("tr", arm.in_play ? {} : {class: "out"},
      make("td", {class: "name", title: arm.name}, make("div", {}, arm.name)),
      make("td", {}, share(arm)),
      make("td", {class: "number"}, part(arm.share)),
      make("td", {}, interval(arm, axis)),
      make("td", {class: "number"}, short(arm.mean))));
  }
  const columns = ["c-name", "c-share", "c-part", "c-interval", "c-mean"].map((name) => make("col", {class: name}));
  const labels = make("tr", {}, make("th", {scope: "col"}, "arm"), make("th", {scope: "col", colspan: 2}, "share"),
    make("th", {scope: "col"}, "95% interval"), make("th", {scope: "col", class: "number"}, "mean"));
  const ends = make("div", {}, make("span", {}, tickText(axis.low, axis.step)),
    make("span", {}, tickText(axis.high, axis.step)));
  const foot = make("tr", {}, make("td", {colspan: 3}), make("td", {class: "numbers"}, ends), make("td"));
  const table = make("table", {}, make("colgroup", {}, ...columns), make("thead", {}, labels), body, make("tfoot", {}, foot));
  const box = make("div", {class: "arms"}, table);
  if (rows.length > MOST_ARMS) {
    box.append(make("p", {class: "quiet"}, `and ${whole(rows.length - MOST_ARMS)} more`));
  }
  return box;
}

function waiting(task) {
  const box = make("p", {class: "quiet waiting"}, "Next to expire: ");
  const next = task.next_to_expire.slice(0, 3);
  const words = next.map((one) => `${one.number} (${one.name}) ${one.late ? "now" : `in ${left(one.lease)}`}`);
  box.append(`${words.join(", ")}.`);
  return box;
}

// The chart

// A line through the values, and dots for those that have no neighbour. Where there is no value, there is no line.
function line(kind, values, x, y) {
  let path = "";
  let dots = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const place = `${x(i).toFixed(1)},${y(value).toFixed(1)}`;
    const follows = i > 0 && values[i - 1] !== null;
    const goesOn = i + 1 < values.length && values[i + 1] !== null;
    path += `${follows ? "L" : "M"}${place}`;
    if (!follows && !goesOn) {
      dots += `M${place}h0`;
    }
  });
  const drawn = [make("path", {class: kind, d: path})];
  if (dots) {
    drawn.push(make("path", {class: `${kind} dots`, d: dots}));
  }
  return drawn;
}

// Each step: where it begins and ends, how many episodes it has, and how many of them expired.
function stepsOf(task) {
  const {width, all, expired} = task.returns;
  const counted = task.expired_return === null ? 0 : task.expired;
  const returns = task.told + counted;
  const steps = all.map((_, i) => {
    const begin = width * i;
    const end = Math.min(begin + width, returns);
    const more = task.expired_return === null ? expired[i] : 0;
    return {begin, end, expired: expired[i], episodes: end - begin + more};
  });
  return {steps, returns};
}

// Neighbouring steps in which most episodes expired, in a task where most do not.
function batches(task, steps, returns) {
  const ended = steps.reduce((sum, step) => sum + step.episodes, 0);
  const found = [];
  if (2 * task.expired > ended) return found;
  let last = null;
  for (const step of steps) {
    if (2 * step.expired < step.episodes || step.expired === 0) {
      last = null;
    } else if (last === null) {
      last = {begin: step.begin, end: step.end, expired: step.expired};
      found.push(last);
    } else {
      last.end = step.end;
      last.expired += step.expired;
    }
  }
  const large = found.filter((batch) => batch.expired >= 5).sort((a, b) => b.expired - a.expired);
  const apart = (one, other) => Math.abs(one.begin - other.begin) > ROOM * returns;
  return large.filter((batch, i) => large.slice(0, i).every((larger) => apart(batch, larger))).slice(0, MOST_BATCHES);
}

// How many episodes expired meanwhile, under the returns of the same time.
function strip(task, steps, returns) {
  const most = Math.max(...steps.map((step) => step.expired));
  const svg = drawing(1000, 100, make("line", {class: "frame", x1: 0, x2: 1000, y1: 100, y2: 100}));
  for (const step of steps) {
    const height = 100 * step.expired / most;
    svg.append(make("rect", {class: "expired", ...across(step, returns), y: 100 - height, height}));
  }
  const box = make("div", {class: "strip"}, svg);
  for (const batch of batches(task, steps, returns)) {
    const after = batch.begin + batch.end < returns;
    const label = make("span", {class: after ? "batch" : "batch before"}, `${whole(batch.expired)} expired`);
    label.style.left = `${100 * (after ? batch.end : batch.begin) / returns}%`;
    box.append(label);
  }
  return [axisNumbers("y", [{text: whole(most), at: 0}, {text: "0", at: 1}]), box];
}

function across(step, returns) {
  const width = Math.max(4, 1000 * (step.end - step.begin) / returns);
  return {x: Math.min(1000 * step.begin / returns, 1000 - width), width};
}

function bestSource(task) {
  const sources = task.arms.slice(0, -1).filter((arm) => arm.mean !== null);
  return sources.reduce((best, arm) => best === null || arm.mean > best.mean ? arm : best, null);
}

function key(task, best) {
  const learner = task.arms[task.arms.length - 1];
  const box = make("p", {class: "key"}, make("span", {class: "k-all"}, "all episodes"));
  if (best !== null) {
    box.append(make("span", {class: "k-source"}, `best source: ${best.name}`));
  }
  box.append(make("span", {class: "k-learner"}, learner.name));
  if (task.expired) {
    box.append(make("span", {class: "k-expired"}, `expired (${expiredCounts(task)})`));
  }
  return box;
}

function chart(task) {
  const {all, learner, width} = task.returns;
  const {steps, returns} = stepsOf(task);
  const best = bestSource(task);
  const known = [...all, ...learner].filter((value) => value !== null);
  if (best !== null) {
    known.push(best.mean);
  }
  const axis = range(Math.min(...known), Math.max(...known), 4);
  const x = (i) => 500 * (steps[i].begin + steps[i].end) / returns;
  const y = (value) => 100 * (axis.high - value) / (axis.high - axis.low);

  const upright = ticks(axis.low, axis.high, 4);
  const svg = drawing(1000, 100);
  for (const value of upright.values) {
    svg.append(make("line", {class: "grid", x1: 0, x2: 1000, y1: y(value), y2: y(value)}));
  }
  for (const step of steps.filter((one) => one.expired > 0)) {
    const opacity = 0.3 * step.expired / step.episodes;
    svg.append(make("rect", {class: "band", ...across(step, returns), y: 0, height: 100, opacity}));
  }
  svg.append(make("rect", {class: "frame", x: 0, y: 0, width: 1000, height: 100}), ...line("all", all, x, y));
  if (best !== null) {
    svg.append(make("line", {class: "source", x1: 0, x2: 1000, y1: y(best.mean), y2: y(best.mean)}));
  }
  svg.append(...line("learner", learner, x, y));

  const numbers = upright.values.map((value) => ({text: tickText(value, upright.step), at: y(value) / 100}));
  const counted = ticks(0, returns, 4).values.filter(Number.isInteger);
  const episodes = counted.map((value) => ({text: whole(value), at: value / returns}));
  const plot = make("div", {class: "plot"}, axisNumbers("y", numbers), make("div", {class: "lines"}, svg));
  if (task.expired) {
    plot.append(...strip(task, steps, returns));
  }
  plot.append(axisNumbers("x", episodes));
  const mean = width === 1 ? "Return of each episode" : `Mean return of each ${whole(width)} episodes`;
  return make("div", {class: "chart"}, key(task, best), plot,
    make("p", {class: "quiet what"}, `${mean}, in the order in which they ended.`));
}

// The page

function section(task) {
  if (task.error) {
    return make("section", {}, make("h2", {class: "wide"}, task.name), make("p", {class: "wide bad"}, task.error));
  }
  const lines = task.next_to_expire.length ? [waiting(task)] : [];
  if (task.best === null) {
    return make("section", {}, head(task), ...lines);
  }
  return make("section", {}, head(task), make("div", {class: "table"}, arms(task), ...lines), chart(task));
}

function show(tasks) {
  const sections = tasks.slice(0, MOST_TASKS).map(section);
  if (!tasks.length) {
    sections.push(make("p", {class: "quiet"}, "There are no tasks yet."));
  }
  if (tasks.length > MOST_TASKS) {
    sections.push(make("p", {class: "quiet"}, `and ${whole(tasks.length - MOST_TASKS)} more tasks`));
  }
  main.replaceChildren(...sections);
}

function say(words) {
  status.textContent = words;
  status.className = "";
  main.className = "";
}

// What is shown is old: say so, and of when it is.
function warn(words) {
  status.textContent = seen === null ? words : `${words}: what is shown is of ${seen.toLocaleTimeString()}`;
  status.className = "bad";
  main.className = "stale";
}

function receive(text) {
  const message = JSON.parse(text.replace(/^data: /, ""));
  if (message.error) {
    warn(message.error);
    return;
  }
  seen = new Date();
  show(message.tasks);
  say(`live, ${seen.toLocaleTimeString()}`);
}

function askForToken(refused) {
  main.replaceChildren();
  seen = null;
  say("a token is needed");
  login.hidden = false;
  button.disabled = false;
  field.setAttribute("aria-invalid", String(refused));
  document.getElementById("refused").textContent = refused ? "This token is not good for reading." : "";
  field.select();
}

async function watch() {
  const given = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => given.abort(), SILENCE);
  };
  heard();
  try {
    const headers = token ? {authorization: `Bearer ${token}`} : {};
    const answer = await fetch("v1/live", {headers, cache: "no-store", signal: given.signal});
    if (answer.status === 401) {
      askForToken(token !== "");
      return false;
    }
    if (!answer.ok) {
      const {error} = await answer.json();
      warn(error.message);
      return true;
    }
    login.hidden = true;
    await follow(answer.body.pipeThrough(new TextDecoderStream()).getReader(), heard);
    return true;
  } finally {
    clearTimeout(timer);
  }
}

async function follow(reader, heard) {
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    heard();
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    if (events.length) {
      receive(events[events.length - 1]);
    }
  }
}

async function start() {
  for (let again = true; again;) {
    try {
      again = await watch();
    } catch {
      warn(LOST);
    }
    if (again) {
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

login.addEventListener("submit", (event) => {
  event.preventDefault();
  button.disabled = true;
  token = field.value.trim();
  start();
});
start();
