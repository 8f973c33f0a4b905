"use strict";
// The picture of the landing page: drag x, and the density follows. All numbers are in
// drag_data.js; nothing else is loaded. Without scripts the still picture stays.

(() => {
  const holder = document.getElementById("drag"), data = window.dragData;
  if (!holder || !data) return;
  const [x0, x1, nx] = data.x, [y0, y1, ny] = data.y;
  const bytes = Uint8Array.from(atob(data.pdf), (c) => c.charCodeAt(0));
  const shares = new Uint16Array(bytes.buffer);
  const pdf = (i, j) => data.top * shares[i * ny + j] / 65535;
  const make = (name, attributes, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.append(element);
    return element;
  };
  const text = (parent, x, y, content, anchor = "middle") => {
    make("text", { x, y, "text-anchor": anchor, class: "drag-text" }, parent).textContent = content;
  };

  // Left: rows and p(y|x) at every x.
  const W = 420, H = 330, left = 34, right = 410, top = 12, bottom = 292;
  const px = (x) => left + (x - x0) / (x1 - x0) * (right - left);
  const py = (y) => bottom - (y - y0) / (y1 - y0) * (bottom - top);
  const map = make("svg", { viewBox: `0 0 ${W} ${H}`, class: "drag-map" });
  const canvas = document.createElement("canvas");
  canvas.width = nx; canvas.height = ny;
  const context = canvas.getContext("2d"), pixels = context.createImageData(nx, ny);
  for (let i = 0; i < nx; i++) for (let j = 0; j < ny; j++) {
    const at = 4 * ((ny - 1 - j) * nx + i);
    pixels.data.set([59, 91, 219, Math.round(215 * Math.min(1, pdf(i, j) / (0.7 * data.top)) ** 0.6)], at);
  }
  context.putImageData(pixels, 0, 0);
  make("image", { href: canvas.toDataURL(), x: left, y: top, width: right - left, height: bottom - top, preserveAspectRatio: "none" }, map);
  const dots = data.rows.map(([x, y]) => `M${px(x).toFixed(1)} ${py(y).toFixed(1)}h.01`).join("");
  make("path", { d: dots, class: "drag-dots" }, map);
  make("path", { d: `M${left} ${top}V${bottom}H${right}`, class: "drag-axis" }, map);
  for (let x = 0; x <= 10; x += 2) text(map, px(x), bottom + 16, x);
  for (let y = -4; y <= 4; y += 2) text(map, left - 8, py(y) + 4, y, "end");
  text(map, (left + right) / 2, H - 4, "x");
  const line = make("path", { class: "drag-line" }, map);
  const knob = make("circle", { r: 8, cy: top + 6, class: "drag-knob" }, map);

  // Right: the density at this x.
  const chart = make("svg", { viewBox: `0 0 ${W} ${H}`, class: "drag-chart" });
  const qx = (y) => 12 + (y - y0) / (y1 - y0) * (W - 24);
  const qy = (p) => bottom - p / (1.08 * data.top) * (bottom - top - 18);
  const whole = make("path", { class: "drag-area" }, chart);
  const region = make("path", { class: "drag-region" }, chart);
  const curve = make("path", { class: "drag-curve" }, chart);
  const mean = make("path", { class: "drag-mean" }, chart);
  make("path", { d: `M12 ${bottom}H${W - 12}`, class: "drag-axis" }, chart);
  for (let y = -4; y <= 4; y += 2) text(chart, qx(y), bottom + 16, y);
  text(chart, W / 2, H - 4, "y");

  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: x0, max: x1, step: (x1 - x0) / (nx - 1), className: "drag-slider" });
  slider.setAttribute("aria-label", "x");
  const words = document.createElement("p");
  words.className = "drag-words";
  words.setAttribute("aria-live", "polite");

  const heights = (x) => {
    const place = (x - x0) / (x1 - x0) * (nx - 1), i = Math.min(nx - 2, Math.floor(place)), share = place - i;
    return { i: share < 0.5 ? i : i + 1, p: (j) => (1 - share) * pdf(i, j) + share * pdf(i + 1, j) };
  };
  const places = Array.from({ length: ny }, (_, j) => y0 + (y1 - y0) * j / (ny - 1));
  function draw(x) {
    const { i, p } = heights(x);
    const points = places.map((y, j) => `${qx(y).toFixed(1)} ${qy(p(j)).toFixed(1)}`);
    curve.setAttribute("d", "M" + points.join("L"));
    whole.setAttribute("d", `M${qx(y0)} ${bottom}L${points.join("L")}L${qx(y1)} ${bottom}Z`);
    const parts = data.regions[i].map(([low, high]) => {
      const inner = places.map((y, j) => [y, j]).filter(([y]) => y > low && y < high);
      return `M${qx(low).toFixed(1)} ${bottom}L${inner.map(([, j]) => points[j]).join("L")}L${qx(high).toFixed(1)} ${bottom}Z`;
    });
    region.setAttribute("d", parts.join(""));
    mean.setAttribute("d", `M${qx(data.mean[i])} ${bottom}V${top + 18}`);
    line.setAttribute("d", `M${px(x).toFixed(1)} ${bottom}V${top}`);
    knob.setAttribute("cx", px(x).toFixed(1));
    slider.value = x;
    const spans = data.regions[i].map(([low, high]) => `${low.toFixed(1)} to ${high.toFixed(1)}`).join(", or ");
    const inside = data.regions[i].some(([low, high]) => low <= data.mean[i] && data.mean[i] <= high);
    words.textContent = `p(y | x = ${x.toFixed(1)}): with 90 % y is ${spans}. The mean is ${data.mean[i].toFixed(1)}${inside ? "" : ", outside of them"}.`;
  }

  let touched = false;
  const touch = () => { touched = true; };
  const drag = (event) => {
    const box = map.getBoundingClientRect();
    const x = x0 + ((event.clientX - box.left) * W / box.width - left) / (right - left) * (x1 - x0);
    draw(Math.min(x1, Math.max(x0, x)));
  };
  map.addEventListener("pointerdown", (event) => { touch(); map.setPointerCapture(event.pointerId); drag(event); });
  map.addEventListener("pointermove", (event) => { if (map.hasPointerCapture(event.pointerId)) drag(event); });
  slider.addEventListener("input", () => { touch(); draw(slider.valueAsNumber); });

  const both = document.createElement("div");
  both.className = "drag-both";
  both.append(map, chart);
  holder.replaceChildren(both, slider, words);
  draw(8.6);
  // It moves once by itself, so that everybody sees that it can.
  if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const begin = performance.now(), lasts = 5200;
  const step = (now) => {
    const share = Math.min(1, (now - begin) / lasts);
    if (touched) return;
    draw(1.2 + 7.4 * (share - Math.sin(2 * Math.PI * share) / (2 * Math.PI)));
    if (share < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})();
