"use strict";
// Names come from anywhere: everything is set as text, nothing as HTML.
const SVG = "http://www.w3.org/2000/svg";
const MOST_TASKS = 50, MOST_ARMS = 12;
const status = document.getElementById("status");
const login = document.getElementById("login");
let token = "";

function make(name, attributes = {}, ...children) {
  const drawn = ["svg", "path", "rect", "line", "circle", "text", "title"].includes(name);
  const node = drawn ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const whole = (n) => n.toLocaleString("en-US");
const short = (x) => x === null ? "–" : Math.abs(x) >= 1e5 ? x.toExponential(2) : Math.abs(x) >= 0.1
  ? String(Number(x.toPrecision(3))) : Math.abs(x) >= 0.001 ? x.toFixed(3) : x === 0 ? "0" : x.toExponential(0);
const part = (x) => x > 0 && x < 0.01 ? "<1%" : `${Math.round(100 * x)}%`;
const left = (s) => s >= 5400 ? `${Math.round(s / 3600)} h` : s >= 90 ? `${Math.round(s / 60)} min` : `${Math.ceil(s)} s`;

function count(label, value, late, more) {
  return make("span", late ? {class: "late"} : {}, make("b", {}, whole(value) + (more ? "+" : "")), ` ${label}`);
}

function head(task) {
  const late = task.next_to_expire.filter((one) => one.late).length;
  const more = late === task.next_to_expire.length && late < task.open; // it lists some of the open ones
  const best = make("p", {class: "best"});
  if (task.best === null) best.append("No return is told yet.");
  else {
    const arm = task.arms[task.best.arm];
    best.append("Best so far: ", make("b", {}, arm.name), ` returns ${short(arm.mean)} on average. `,
      make("span", {class: "quiet"}, task.best.certain
        ? "Its interval is above all others: it is the one to keep."
        : "Its interval overlaps others: not certain yet."));
  }
  return make("div", {class: "head"}, make("h2", {}, task.name),
    make("p", {class: "counts"}, count("asked", task.asked), count("told", task.told), count("open", task.open),
      count("late", late, late > 0, more), count("expired", task.expired), count("cancelled", task.cancelled),
      make("span", {class: "quiet"}, task.selector)), best);
}

function interval(arm, low, high) {
  const svg = make("svg", {viewBox: "0 0 100 14", height: 14, preserveAspectRatio: "none", "aria-hidden": "true"});
  const x = (value) => 100 * (value - low) / (high - low);
  if (arm.mean !== null) {
    svg.append(make("line", {class: "range", x1: x(arm.lower), x2: x(arm.upper), y1: 7, y2: 7}),
      make("rect", {class: "mean", x: Math.max(0, x(arm.mean) - 0.7), y: 2, width: 1.4, height: 10}));
  }
  return svg;
}

function share(arm) {
  return make("svg", {viewBox: "0 0 100 14", height: 14, preserveAspectRatio: "none", "aria-hidden": "true"},
    make("rect", {class: "bar", x: 0, y: 1, width: 100 * arm.share, height: 12}));
}

function arms(task) {
  const rows = task.arms.map((arm, i) => ({...arm, i})).sort((a, b) => b.told - a.told || a.i - b.i);
  const body = make("tbody");
  const means = task.arms.filter((arm) => arm.mean !== null);
  const low = Math.min(...means.map((arm) => arm.lower)), high = Math.max(...means.map((arm) => arm.upper));
  for (const arm of rows.slice(0, MOST_ARMS)) {
    body.append(make("tr", arm.in_play ? {} : {class: "out"}, make("td", {title: arm.name}, arm.name),
      make("td", {}, share(arm)), make("td", {}, part(arm.share)), make("td", {}, interval(arm, low, high)),
      make("td", {}, short(arm.mean))));
  }
  const labels = ["arm", "share", "", "95%", "mean"].map((label) => make("th", {scope: "col"}, label));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...labels)), body);
  const more = rows.length - MOST_ARMS;
  return make("div", {class: "arms"}, table, ...(more > 0 ? [make("p", {class: "quiet"}, `and ${whole(more)} more`)] : []));
}

function chart(task) {
  const {all, learner, width} = task.returns;
  const sources = task.arms.slice(0, -1).filter((arm) => arm.mean !== null).map((arm) => arm.mean);
  const best = sources.length ? Math.max(...sources) : null;
  const known = [...all, ...learner.filter((x) => x !== null), ...(best === null ? [] : [best])];
  const box = make("div", {class: "chart"});
  if (known.length === 0) return box;
  let low = Math.min(...known), high = Math.max(...known);
  if (high === low) { low -= 0.5; high += 0.5; }
  const W = 400, H = 130, x = (i) => all.length < 2 ? W / 2 : W * i / (all.length - 1);
  const y = (value) => H - 4 - (H - 8) * (value - low) / (high - low);
  const line = (values) => {
    let path = "";
    values.forEach((value, i) => { if (value !== null) path += `${path ? "L" : "M"}${x(i).toFixed(1)},${y(value).toFixed(1)}`; });
    return path;
  };
  const svg = make("svg", {viewBox: `0 0 ${W} ${H}`, height: H, preserveAspectRatio: "none", role: "img"},
    make("title", {}, `Mean return of each ${width} episodes, from ${short(low)} to ${short(high)}`),
    make("rect", {class: "frame", x: 0, y: 0, width: W, height: H}));
  if (best !== null) svg.append(make("line", {class: "source", x1: 0, x2: W, y1: y(best), y2: y(best)}));
  svg.append(make("path", {class: "learner", d: line(learner)}), make("path", {class: "all", d: line(all)}));
  box.append(make("p", {class: "key"}, make("span", {class: "k-all"}, "all episodes"),
    make("span", {class: "k-source"}, "best source"), make("span", {class: "k-learner"}, "learner")), svg,
    make("p", {class: "quiet"}, `Return over ${whole(task.told)} episodes, ${whole(width)} to a step: ${short(low)} to ${short(high)}.`));
  return box;
}

function waiting(task) {
  const box = make("p", {class: "quiet waiting"});
  const next = task.next_to_expire.slice(0, 4);
  if (!next.length) box.append("No episode is open.");
  else {
    box.append("Next to expire: ");
    next.forEach((one, i) => box.append(i ? ", " : "", make("span", one.late ? {class: "late"} : {},
      `${one.number} (${one.name}) ${one.late ? "late" : `in ${left(one.lease)}`}`)));
    box.append(".");
  }
  return box;
}

function show(tasks) {
  const main = document.getElementById("tasks");
  const sections = tasks.slice(0, MOST_TASKS).map((task) => {
    if (task.error) return make("section", {}, make("h2", {}, task.name), make("p", {class: "late"}, task.error));
    const right = make("div", {}, chart(task), waiting(task));
    return make("section", {}, head(task), arms(task), right);
  });
  if (!tasks.length) sections.push(make("p", {class: "quiet"}, "There are no tasks yet."));
  if (tasks.length > MOST_TASKS) sections.push(make("p", {class: "quiet"}, `and ${tasks.length - MOST_TASKS} more tasks`));
  main.replaceChildren(...sections);
}

function say(words, late) {
  status.textContent = words;
  status.className = late ? "late" : "";
}

function receive(text) {
  const message = JSON.parse(text.replace(/^data: /, ""));
  if (message.error) say(message.error, true);
  else { show(message.tasks); say(`live, ${new Date().toLocaleTimeString()}`); }
}

async function watch() {
  const answer = await fetch("v1/live", {headers: token ? {authorization: `Bearer ${token}`} : {}, cache: "no-store"});
  if (answer.status === 401 || answer.status === 403) {
    login.hidden = false;
    say(token ? "this token is not good for reading" : "a token is needed", true);
    return false;
  }
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  login.hidden = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return true;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    if (events.length) receive(events[events.length - 1]);
  }
}

async function start() {
  for (let again = true; again;) {
    try { again = await watch(); } catch { say("no answer, trying again", true); }
    if (again) await new Promise((done) => setTimeout(done, 1000));
  }
}

login.addEventListener("submit", (event) => {
  event.preventDefault();
  token = document.getElementById("token").value.trim();
  start();
});
start();
