"use strict";
// The page of kexpfam explore. Pictures come from the server as SVG; the threshold is
// drawn here, from the grid of the last answer, so that dragging it asks for nothing.

const byId = (id) => document.getElementById(id);
const state = { values: {}, fixed: {}, moving: false, level: 0.9, region: "interval", zoom: true, pinned: null, t: null, observed: null, place: null };
const answers = {};
let page = null;

// ---- numbers -----------------------------------------------------------------------

function shown(value, digits = 4, trim = false) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 10 ** (digits + 5) || size < 1e-4) return value.toExponential(digits - 1).replace("e+", "e").replace(/-/g, "−");
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const whole = trim || Number.isInteger(value);  // of counts, numbers are often whole
  return value.toLocaleString("en", { minimumFractionDigits: whole ? 0 : places, maximumFractionDigits: places, useGrouping: size >= 1e4 }).replace("-", "−");
}

function percent(p) {
  if (p > 0 && p < 0.001) return "< 0.1 %";
  if (p < 1 && p > 0.999) return "> 99.9 %";
  return (100 * p).toFixed(1) + " %";
}

const rounded = (value) => Number(value.toPrecision(6));

function between(xs, ys, x) {
  if (x <= xs[0]) return ys[0];
  let low = 0, high = xs.length - 1;
  if (x >= xs[high]) return ys[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  return ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
}

// ---- asking ------------------------------------------------------------------------

// In a notebook there is no server: the page that shows this one hands questions on.
const waiting = new Map();
let asked = 0;
window.addEventListener("message", (event) => {
  const content = window.embedded && event.source === window.parent && event.data && event.data.kexpfam;
  if (!content || !waiting.has(content.id)) return;
  const [resolve, reject] = waiting.get(content.id);
  waiting.delete(content.id);
  if (content.error) reject(new Error(content.error)); else resolve(content.answer);
});

function askParent(name, fields) {
  return new Promise((resolve, reject) => {
    waiting.set(++asked, [resolve, reject]);
    window.parent.postMessage({ kexpfam: { id: asked, name, fields } }, "*");
  });
}

async function ask(name, fields) {
  if (window.embedded) return askParent(name, fields);
  let response;
  try {
    response = await fetch("api/" + name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) });
  } catch (error) {
    throw new Error("kexpfam does not answer: it may have been ended in the terminal.");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function tell(error) {
  byId("problem").textContent = error ? error.message : "";
  byId("problem").hidden = !error;
}

// At most one question of a kind is under way and at most one begins per frame; what is
// asked meanwhile is asked once, with the newest values, when the answer is there.
function latest(work) {
  let busy = false, again = false;
  const run = () => {
    if (busy) { again = true; return; }
    busy = true;
    requestAnimationFrame(async () => {
      again = false;
      try { await work(); tell(null); } catch (error) { tell(error); }
      busy = false;
      if (again) run();
    });
  };
  return run;
}

function later(work, milliseconds) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(work, milliseconds); };
}

const widthOf = (element) => Math.max(160, Math.floor(element.clientWidth));
const isNarrow = () => window.innerWidth <= 640;

// ---- density -----------------------------------------------------------------------

const densityQuestion = () => {
  const width = widthOf(byId("density")) - 2 * parseFloat(getComputedStyle(byId("density")).paddingLeft);
  return { values: state.values, level: state.level, region: state.region, zoom: state.zoom, moving: state.moving, observed: state.observed, width, height: isNarrow() ? 168 : 316 };
};

const redraw = latest(async () => {
  const chart = byId("density-chart"), asked = densityQuestion();
  const { width, height } = asked;
  if (state.zoom && answers.density) asked.kept = answers.density.frame.own;
  if (state.pinned) { asked.include = state.pinned.frame.own; asked.peak = Math.max(...state.pinned.pdf); asked.likeliest = state.pinned.frame.likeliest; }
  const answer = await ask("density", asked);
  answers.density = answer;
  answer.moving = asked.moving;  // some numbers are left out, and others there are not
  chart.setAttribute("width", width);
  chart.setAttribute("height", height);
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  byId("density-content").innerHTML = answer.content;
  if (state.t === null) setThreshold(Number(answer.quantiles[3].toPrecision(3)));
  else drawThreshold();
  drawPinned();
  drawLegend(answer);
  drawNumbers(answer);
  document.documentElement.dataset.drawn = Number(document.documentElement.dataset.drawn || 0) + 1;
});

function item(kind, text, value) {
  const li = document.createElement("li");
  li.className = kind;
  li.append(text + " ");
  if (value !== undefined) { const b = document.createElement("b"); b.textContent = value; li.append(b); }
  return li;
}

const spans = (region) => region.map((r) => `${shown(r[0])} – ${shown(r[1])}`).join(", ");

function drawLegend(a) {
  const items = [item("key-mean", "mean", shown(a.mean)), item("key-median", "median", shown(a.quantiles[2]))];
  const modes = a.modes.map((m) => shown(m.place)).join(", ");
  if (modes) items.push(item("key-mode", a.modes.length > 1 ? "modes" : "mode", modes));
  items.push(item("key-region", `${100 * a.level} % ${state.region === "hpd" ? "highest density" : "interval"}`, spans(a.region)));
  if (a.atoms.length) items.push(item("key-atom", "own probability"));
  if (state.observed !== null) items.push(item("key-observed", "observed", shown(state.observed)));
  if (state.pinned) items.push(item("key-pinned", "A: median", `${shown(state.pinned.quantiles[2])}, ${100 * state.pinned.level} % ${spans([state.pinned.interval])}`));
  byId("density-legend").replaceChildren(...items);
  byId("unlike").hidden = !a.note;
  byId("unlike").textContent = a.note ? `Note: ${a.note}.` : "";
}

function numberRows(a) {
  const rows = [["mean", a.mean], ["half of the middle 68 %", a.half_width]];
  // Far tails make a standard deviation that says little of where most values are.
  rows.push([a.std > 1.25 * a.half_width ? "standard deviation, with far tails" : "standard deviation", a.std]);
  a.levels.forEach((level, i) => rows.push([level === 0.5 ? "median" : `${+(100 * level).toFixed(1)} % quantile`, a.quantiles[i]]));
  rows.push([`${100 * a.level} % interval, from`, a.interval[0]], [`${100 * a.level} % interval, to`, a.interval[1]]);
  for (const [value, mass] of a.atoms.slice(0, 8)) rows.push([`probability of exactly ${shown(value, 4, true)}`, mass]);
  a.modes.forEach((m, i) => rows.push([a.modes.length > 1 ? `mode ${i + 1} (mass ${percent(m.mass)})` : "mode", m.place]));
  if (a.near !== null) rows.push(["training rows nearby, about", a.near]);
  return rows;
}

function drawNumbers(a) {
  const text = (name, value) => value === undefined ? "" : value === null ? (a.moving ? "…" : "–") : name.startsWith("training") ? shown(value, 2) : shown(value);
  const line = (name, cells) => {
    const row = document.createElement("tr"), head = document.createElement("th");
    head.scope = "row"; head.textContent = name;
    row.append(head, ...cells.map((content) => { const cell = document.createElement("td"); cell.textContent = content; return cell; }));
    return row;
  };
  const kind = (name) => name.replace(/, with far tails| \(mass.*\)/, "");
  const before = state.pinned ? new Map(numberRows(state.pinned).map(([name, value]) => [kind(name), value])) : null;
  const rows = numberRows(a).map(([name, value]) => line(name, before ? [text(name, before.get(kind(name))), text(name, value)] : [text(name, value)]));
  if (before) rows.unshift(line("", ["A, pinned", "now"]));
  byId("numbers-body").replaceChildren(...rows);
}

// ---- a density to compare with -----------------------------------------------------

function drawPinned() {
  const a = answers.density, p = state.pinned;
  byId("pinned").setAttribute("d", "");
  byId("pin").textContent = p ? "Unpin A" : "Pin as A";
  byId("pinned-text").hidden = !p;
  if (!a || !p) return;
  const { axis, left, right, base, top, highest } = a.frame;
  const points = p.grid.map((y, i) => [left + (y - axis[0]) / (axis[1] - axis[0]) * (right - left), base - p.pdf[i] / highest * (base - top)]);
  const inside = points.filter(([x]) => x >= left && x <= right).map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  const line = inside.length && p.pdf.some((height) => height > 0) ? "M" + inside.join("L") : "";
  byId("pinned").setAttribute("d", line + pinnedStems(a, p));
  const changed = page.controls.filter((c) => state.values[c.name] !== p.values[c.name]);
  const told = changed.slice(0, 4).map((c) => `${c.name} ${spelled(p.values[c.name])} → ${spelled(state.values[c.name])}`).join(", ");
  const more = changed.length > 4 ? `, and ${changed.length - 4} more` : "";
  const above = 1 - between(p.grid, p.cdf, state.t);
  byId("pinned-text").textContent = `A → now: ${told ? told + more : "nothing changed yet"}. P(> t) was ${percent(Math.min(1, Math.max(0, above)))}.`;
}

// Stems of values with a probability of their own, beside those of now and on their scale.
function pinnedStems(a, p) {
  const { axis, left, right, base, top, likeliest } = a.frame;
  const within = ([value, mass]) => value >= axis[0] && value <= axis[1] && mass >= 0.001;
  return p.atoms.filter(within).map(([value, mass]) => {
    const x = left + (value - axis[0]) / (axis[1] - axis[0]) * (right - left) + 5;
    const y = base - 0.72 * Math.min(1, mass / likeliest) * (base - top);
    return `M${x.toFixed(1)} ${base}V${y.toFixed(1)}m-4 0h8`;
  }).join("");
}

const spelled = (value) => typeof value === "number" ? shown(value, 4, true) : value;

// What is kept has all numbers, also those that are left out while a slider moves.
async function pin() {
  const values = { ...state.values };
  try {
    state.pinned = state.pinned ? null : { ...await ask("density", { ...densityQuestion(), values, moving: false }), values };
  } catch (error) { tell(error); return; }
  redraw();
}

// ---- threshold ---------------------------------------------------------------------

function setThreshold(t) {
  state.t = t;
  byId("t").value = t;
  drawThreshold();
}

function drawThreshold() {
  const a = answers.density;
  if (!a || state.t === null) return;
  const { axis, left, right, base, top, highest } = a.frame;
  const place = (y) => left + (y - axis[0]) / (axis[1] - axis[0]) * (right - left);
  const level = (p) => base - p / highest * (base - top);
  const t = Math.min(Math.max(state.t, axis[0]), axis[1]);
  let path = `M${place(t).toFixed(1)} ${base}L${place(t).toFixed(1)} ${level(between(a.grid, a.pdf, t)).toFixed(1)}`;
  a.grid.forEach((y, i) => { if (y > t) path += `L${place(y).toFixed(1)} ${level(a.pdf[i]).toFixed(1)}`; });
  byId("tail").setAttribute("d", path + `L${right} ${base}Z`);
  const x = place(t).toFixed(1);
  byId("threshold-line").setAttribute("d", `M${x} ${base}V${top + 18}`);
  for (const id of ["threshold-handle", "threshold-halo"]) {
    byId(id).setAttribute("cx", x);
    byId(id).setAttribute("cy", top + 11);
  }
  const below = Math.min(1, Math.max(0, between(a.grid, a.cdf, state.t)));
  const name = page.target.length > 22 ? page.target.slice(0, 21) + "…" : page.target;
  const text = byId("tail-text");
  text.replaceChildren(phrase(`P(${name} > t) = `, percent(1 - below)), phrase(`P(${name} ≤ t) = `, percent(below)));
  if (state.pinned) drawPinned();
  const handle = byId("threshold");
  handle.setAttribute("aria-valuemin", rounded(axis[0]));
  handle.setAttribute("aria-valuemax", rounded(axis[1]));
  handle.setAttribute("aria-valuenow", state.t);
  handle.setAttribute("aria-valuetext", `${shown(state.t)}, probability above ${percent(1 - below)}`);
}

function phrase(words, value) {
  const span = document.createElement("span"), b = document.createElement("b");
  b.textContent = value;
  span.append(words, b);
  return span;
}

function listenToThreshold() {
  const chart = byId("density-chart"), handle = byId("threshold");
  const move = (event) => {
    const { axis, left, right } = answers.density.frame;
    const x = event.clientX - chart.getBoundingClientRect().left;
    const share = Math.min(1, Math.max(0, (x - left) / (right - left)));
    const digits = Math.max(0, 3 - Math.floor(Math.log10(axis[1] - axis[0])));
    setThreshold(Number((axis[0] + share * (axis[1] - axis[0])).toFixed(Math.min(digits, 12))));
  };
  handle.addEventListener("pointerdown", (event) => {
    if (!answers.density) return;
    handle.setPointerCapture(event.pointerId);
    handle.classList.add("dragged");
    event.preventDefault();
    handle.focus({ focusVisible: false });
  });
  handle.addEventListener("pointermove", (event) => { if (handle.hasPointerCapture(event.pointerId)) move(event); });
  handle.addEventListener("lostpointercapture", () => handle.classList.remove("dragged"));
  chart.addEventListener("click", (event) => { if (answers.density && event.target !== byId("threshold-halo")) move(event); });
  handle.addEventListener("keydown", (event) => {
    if (!answers.density) return;
    const { axis } = answers.density.frame;
    const step = (axis[1] - axis[0]) / 200;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    if (event.key in steps) setThreshold(rounded(state.t + steps[event.key] * step * (event.shiftKey ? 10 : 1)));
    else if (event.key === "Home") setThreshold(rounded(axis[0]));
    else if (event.key === "End") setThreshold(rounded(axis[1]));
    else return;
    event.preventDefault();
  });
  byId("t").addEventListener("input", (event) => {
    const t = event.target.valueAsNumber;
    if (Number.isFinite(t)) { state.t = t; drawThreshold(); }
  });
}

// ---- other cards -------------------------------------------------------------------

const recurve = latest(async () => {
  const box = byId("curve-picture");
  const answer = await ask("curve", { values: state.values, feature: byId("curve-feature").value, others: byId("curve-others").value, width: widthOf(box), height: isNarrow() ? 250 : 290 });
  answers.curve = answer;
  box.innerHTML = answer.picture;
  byId("curve-few").hidden = !answer.few;
  judgeOnce();
});

const resample = latest(async () => {
  const box = byId("draws-picture");
  const answer = await ask("draws", { feature: byId("draws-feature").value || null, width: widthOf(box), height: isNarrow() ? 250 : 290 });
  answers.draws = answer;
  box.innerHTML = answer.picture;
  byId("draws-legend").classList.toggle("dots", Boolean(byId("draws-feature").value));
});

const judge = latest(async () => {
  byId("calibration-text").textContent = "Comparing with the data …";
  const a = await ask("calibration", { width: widthOf(byId("pit-picture")), height: 220 });
  answers.calibration = a;
  byId("pit-picture").innerHTML = a.pit_picture;
  byId("coverage-picture").innerHTML = a.coverage_picture;
  const ninety = a.coverage.find((c) => Math.abs(c.level - 0.9) < 1e-9);
  const scores = Object.entries(a.scores).map(([name, [value, error]]) => `${name} ${shown(value)} ± ${shown(error, 2)}`).join(", ");
  byId("calibration-text").textContent = `${a.rows} rows. 90 % intervals hold ${percent(ninety.central)} of them. ${scores}. Uniform PIT: p = ${shown(a.p_value, 2)}.`;
  byId("calibration-note").textContent = a.note;
  for (const button of document.querySelectorAll("#calibration .downloads button")) button.hidden = false;
  if (page.controls.length > 1 && !document.documentElement.dataset.ranked) rank();
});

// Once what is seen first is there; it takes longest, and needs no click.
let judged = false;
function judgeOnce(again = false) {
  if (!page.observed || (judged && !again)) return;
  judged = true;
  judge();
}

const repair = latest(async () => {
  const given = {};
  for (const control of page.controls) if (control.always || state.fixed[control.name]) given[control.name] = state.values[control.name];
  const a = await ask("pairs", { given, width: widthOf(byId("pairs-picture")) });
  answers.pairs = a;
  byId("pairs-picture").innerHTML = a.picture;
  const fixed = Object.keys(given);
  for (const key of document.querySelectorAll("#pairs .data-only")) key.hidden = fixed.length > 0 || !page.rows;
  byId("pairs-note").textContent = (fixed.length ? `Draws given ${fixed.map((n) => `${n} = ${shown(given[n])}`).join(", ")}. ` : "")
    + (a.worth === null ? "" : `By weighting: worth about ${shown(a.worth, 2)} independent draws. `) + a.note;
  document.documentElement.dataset.drawn = Number(document.documentElement.dataset.drawn || 0) + 1;
});

const regraph = latest(async () => {
  answers.graph = await ask("graph", { width: widthOf(byId("graph-picture")) });
  byId("graph-picture").innerHTML = answers.graph.picture;
});

// ---- controls ----------------------------------------------------------------------

// What is not looked at while a slider moves is asked for when it rests.
const rest = later(() => { state.moving = false; redraw(); recurve(); }, 150);

function changed() {
  if (page.kind === "joint") { repair(); return; }
  state.moving = true;
  redraw();
  rest();
}

function forgetRow() {
  state.observed = null;
  state.place = null;
  byId("place").value = "";
}

function sliderOf(control) {
  const box = document.createElement("div");
  const id = "control-" + page.controls.indexOf(control);
  box.className = "control";
  const head = document.createElement("div");
  head.className = "control-top";
  const label = document.createElement("label");
  label.htmlFor = id;
  label.textContent = control.name;
  control.bar = document.createElement("span");
  control.bar.className = "relevance";
  label.append(control.bar);
  control.box = box;
  head.append(label);
  box.append(head);
  if (control.categories.length) {
    const select = document.createElement("select");
    select.id = id;
    for (const category of control.categories) select.append(new Option(category, category));
    select.addEventListener("change", () => { state.values[control.name] = select.value; forgetRow(); changed(); });
    control.show = (value) => { select.value = value; };
    box.append(select);
    return box;
  }
  const slider = document.createElement("input"), number = document.createElement("input");
  slider.type = "range"; slider.id = id;
  slider.min = control.low; slider.max = control.high; slider.step = control.step;
  number.type = "number"; number.step = "any";
  number.setAttribute("aria-label", control.name + ", as a number");
  const paint = () => slider.style.setProperty("--share", `${100 * (slider.value - control.low) / (control.high - control.low)}%`);
  const take = (value) => { state.values[control.name] = value; if (page.kind === "joint") hold(true); forgetRow(); paint(); changed(); };
  slider.addEventListener("input", () => { number.value = slider.valueAsNumber; take(slider.valueAsNumber); });
  number.addEventListener("input", () => {
    if (!Number.isFinite(number.valueAsNumber)) return;
    slider.value = number.value;
    take(number.valueAsNumber);
  });
  control.show = (value) => { slider.value = value; number.value = rounded(value); paint(); };
  const ends = document.createElement("div");
  ends.className = "ends";
  ends.setAttribute("aria-hidden", "true");
  for (const end of [control.low, control.high]) { const s = document.createElement("span"); s.textContent = shown(end, 4, true); ends.append(s); }
  let hold = () => {};
  if (page.kind === "joint" && !control.always) {
    const tick = document.createElement("input");
    tick.type = "checkbox";
    tick.setAttribute("aria-label", "Hold " + control.name + " fixed");
    label.className = "check";
    label.prepend(tick);
    hold = (on) => { state.fixed[control.name] = on; tick.checked = on; box.classList.toggle("free", !on); };
    control.release = () => hold(false);
    tick.addEventListener("change", () => { hold(tick.checked); changed(); });
    hold(false);
  }
  head.append(number);
  box.append(slider, ends);
  return box;
}

// How much a column matters: what is lost without it, or until that is known how much
// densities depend on it.
function paintBars() {
  const most = Math.max(0, ...page.controls.map((c) => c.loss ? c.loss[0] : 0));
  for (const control of page.controls) {
    const share = control.loss ? (most > 0 ? Math.max(0, control.loss[0]) / most : 0) : control.relevance;
    const names = control.beside && control.beside.length ? [control.name, ...control.beside].join(" + ") : "it";
    control.bar.hidden = !share;
    control.bar.style.setProperty("--relevance", share || 0);
    control.bar.title = control.loss ? `${shown(control.loss[0], 3)} ± ${shown(control.loss[1], 2)} nats of log density are lost without ${names}` : `${percent(share || 0)} of what the density depends on`;
  }
}

// Where rows have observations, conditions are put in the order of their importance, as
// soon as that is known and no slider moves.
const rank = latest(async () => {
  const answer = await ask("importance", {});
  if (!answer.rows) return;
  const apply = () => {
    if (state.moving) { setTimeout(apply, 400); return; }
    const place = new Map(answer.controls.map((c, i) => [c.name, i]));
    for (const control of page.controls) Object.assign(control, { loss: answer.controls[place.get(control.name)].loss, beside: answer.controls[place.get(control.name)].beside });
    page.controls.sort((a, b) => place.get(a.name) - place.get(b.name));
    byId("controls").append(...page.controls.map((c) => c.box));
    for (const id of ["curve-feature", "draws-feature"]) {
      const chosen = byId(id).value, options = new Map([...byId(id).options].map((o) => [o.value, o]));
      byId(id).append(...page.controls.map((c) => options.get(c.name)));
      byId(id).value = chosen;
    }
    paintBars();
    byId("panel-note").textContent = `They begin at a typical row of the data, in the order of the log density that ${answer.rows} rows lose without them.`;
    document.documentElement.dataset.ranked = answer.rows;
  };
  apply();
});

function setAll(values) {
  for (const control of page.controls) {
    state.values[control.name] = values[control.name];
    control.show(values[control.name]);
  }
}

const takeRow = latest(async () => {
  const wanted = Math.min(page.rows, Math.max(1, state.place || 1));
  const answer = await ask("row", { place: wanted });
  state.place = answer.place;
  state.observed = answer.observed;
  byId("place").value = answer.place;
  setAll(answer.values);
  changed();
});

function listenToControls() {
  byId("reset").addEventListener("click", () => {
    forgetRow();
    for (const control of page.controls) if (control.release) control.release();
    setAll(Object.fromEntries(page.controls.map((c) => [c.name, c.start])));
    changed();
  });
  byId("previous").addEventListener("click", () => { state.place = (state.place || 2) - 1; takeRow(); });
  byId("next").addEventListener("click", () => { state.place = (state.place || 0) + 1; takeRow(); });
  byId("random").addEventListener("click", () => { state.place = 1 + Math.floor(Math.random() * page.rows); takeRow(); });
  byId("place").addEventListener("change", (event) => { state.place = event.target.valueAsNumber || 1; takeRow(); });
  byId("level").addEventListener("change", (event) => { state.level = Number(event.target.value); redraw(); });
  byId("region").addEventListener("change", (event) => { state.region = event.target.value; redraw(); });
  byId("zoom").addEventListener("change", (event) => { state.zoom = event.target.checked; redraw(); });
  byId("pin").addEventListener("click", pin);
  byId("curve-others").addEventListener("change", recurve);
  byId("panel").addEventListener("scroll", cueMore, { passive: true });
  byId("curve-feature").addEventListener("change", recurve);
  byId("draws-feature").addEventListener("change", resample);
}

// ---- downloads ---------------------------------------------------------------------

const csvTables = {
  density: (a) => [["y", "density", "cdf"], ...a.grid.map((y, i) => [y, a.pdf[i], a.cdf[i]])],
  curve: (a) => [[a.feature, "mean", ...a.levels.map((l) => "quantile_" + l)], ...a.places.map((p, i) => [p, a.mean[i], ...a.quantiles[i]])],
  draws: (a) => [["row", "observed", "drawn"], ...a.numbers.map((n, i) => [n, a.observed[i], a.drawn[i]])],
  calibration: (a) => [["pit"], ...a.pit.map((v) => [v])],
  numbers: (a) => [["number", "value"], ...numberRows(a), ["t", state.t], ["P(y <= t)", between(a.grid, a.cdf, state.t)]],
  pairs: (a) => [a.names, ...a.draws],
};

function csvText(rows) {
  const cell = (v) => {
    const text = v === null || v === undefined ? "" : String(v);
    return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function saveAs(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-weight", "font-family"];

function imageOf(svg) {
  const copy = svg.cloneNode(true);
  const before = [svg, ...svg.querySelectorAll("*")], after = [copy, ...copy.querySelectorAll("*")];
  before.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) after[i].setAttribute(name, style.getPropertyValue(name));
  });
  const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => { URL.revokeObjectURL(url); resolve(image); };
    image.onerror = () => reject(new Error("The picture could not be made."));
    image.src = url;
  });
}

async function pngOf(card) {
  const pictures = [...byId(card).querySelectorAll("svg")];
  const images = await Promise.all(pictures.map(imageOf));
  const sizes = pictures.map((p) => [Number(p.getAttribute("width")), Number(p.getAttribute("height"))]);
  const pad = 16, factor = 2;
  const canvas = document.createElement("canvas");
  canvas.width = factor * (sizes.reduce((sum, s) => sum + s[0] + pad, pad));
  canvas.height = factor * (Math.max(...sizes.map((s) => s[1])) + 2 * pad);
  const context = canvas.getContext("2d");
  context.scale(factor, factor);
  context.fillStyle = getComputedStyle(byId(card)).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  let x = pad;
  images.forEach((image, i) => { context.drawImage(image, x, pad, sizes[i][0], sizes[i][1]); x += sizes[i][0] + pad; });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function addDownloads() {
  for (const holder of document.querySelectorAll(".downloads")) {
    const card = holder.dataset.card;
    const name = `${page.target}-${card}`.replace(/[^\w-]+/g, "_");
    const add = (label, work) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.setAttribute("aria-label", `Download ${card} as ${label}`);
      button.hidden = card === "calibration";
      button.addEventListener("click", () => work().then(() => tell(null), tell));
      holder.append(button);
    };
    if (card !== "numbers") add("PNG", async () => saveAs(await pngOf(card), name + ".png"));
    if (card in csvTables) {
      add("CSV", async () => {
        const answer = answers[card === "numbers" ? "density" : card];
        if (answer) saveAs(new Blob([csvText(csvTables[card](answer))], { type: "text/csv" }), name + ".csv");
      });
    }
  }
}

// ---- start -------------------------------------------------------------------------

function redrawAll() {
  if (page.kind === "joint") { repair(); regraph(); return; }
  redraw();
  if (byId("curve-feature").value) recurve();
  if (page.observed) resample();
  if (answers.calibration || !byId("curve-feature").value) judgeOnce(true);
  cueMore();
}

// Whether conditions go on below what is seen of them.
function cueMore() {
  const panel = byId("panel");
  byId("more").hidden = panel.scrollHeight - panel.clientHeight - panel.scrollTop < 12;
}

function showCards() {
  const joint = page.kind === "joint";
  byId("layout").classList.toggle("joint", joint);
  const cards = joint ? ["panel", "pairs", "graph"] : ["density", "panel", "curve", "numbers"];
  if (!joint && page.observed) cards.push("draws", "calibration");
  for (const card of cards) byId(card).hidden = false;
  for (const key of document.querySelectorAll(".data-only")) key.hidden = !page.observed;
  if (!joint && !page.controls.length) for (const card of ["panel", "curve"]) byId(card).hidden = true;
}

function fillIn() {
  const names = page.controls.map((c) => c.name);
  const few = names.length > 5 ? [...names.slice(0, 4), "…"] : names;
  const joint = page.kind === "joint";
  byId("title").textContent = joint ? `p(${few.join(", ")})` : `p(${page.target}${few.length ? " | " + few.join(", ") : ""})`;
  document.title = `${page.title} · kexpfam`;
  byId("subtitle").textContent = [...(page.title === page.model ? [] : [page.title]), page.model, page.rows ? `${page.rows.toLocaleString("en")} rows of ${page.source}` : "no data"].join(" · ");
  byId("density-title").textContent = `Density of ${page.target}`;
  byId("panel-title").textContent = joint ? "Hold columns fixed" : "Conditions";
  byId("panel-note").textContent = joint ? "Tick a column, or move its slider, to see the others given its value." : page.rows ? "They begin at a typical row of the data" + (names.length > 1 ? ", in the order of how much the density depends on them." : ".") : "";
  byId("curve-others").hidden = names.length < 2;
  byId("rows").hidden = joint || !page.rows;
  byId("place").max = page.rows;
  byId("controls").replaceChildren(...page.controls.map(sliderOf));
  paintBars();
  for (const name of names) {
    byId("curve-feature").append(new Option(name, name));
    byId("draws-feature").append(new Option("against " + name, name));
  }
  setAll(Object.fromEntries(page.controls.map((c) => [c.name, c.start])));
  for (const control of page.controls) if (control.release) control.release();
}

async function start() {
  try {
    page = await ask("description", {});
  } catch (error) { tell(error); return; }
  fillIn();
  showCards();
  addDownloads();
  listenToControls();
  listenToThreshold();
  redrawAll();
  let width = window.innerWidth;
  window.addEventListener("resize", cueMore);
  window.addEventListener("resize", later(() => { if (window.innerWidth !== width) { width = window.innerWidth; redrawAll(); } }, 150));
}

start();
