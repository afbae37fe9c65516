"use strict";
// The page of moao lab: what is set (stars, targets, sliders) goes to the server, which answers with a map of the field.
const facts = JSON.parse(document.getElementById("data").textContent);
const token = new URLSearchParams(location.search).get("token") || "";
const element = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const FIRE = [[0, 0, 4], [40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [250, 193, 39], [252, 255, 164]];
const BOX = {left: 62, top: 14, side: 440};   // of the map in the drawing
const WAIT = 250, REST = 120, QUIET = 2500;   // [ms]: after a key or slider; of the pointer before a PSF; before the full order
const state = {values: {}, order: facts.order, profile: 0, serial: 0, map: null, cursor: null, image: null, compared: null};

// --- words and numbers

const minus = t => t.replace(/-/g, "−");
const number = v => v === null || v === undefined ? "–" : minus(Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) : v.toFixed(3));
const arcsec = v => minus((Math.round(v * 10) / 10).toFixed(1)) + "″";
const power = e => e === 0 ? "1" : "10" + String(e).replace(/./g, c => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
const written = t => t.replace(/\bum\b/, "µm").replace("rad2", "rad²");
const place = p => "(" + arcsec(p[0]) + ", " + arcsec(p[1]) + ")";
const clock = s => s === null || s === undefined ? "" : s >= 90 ? Math.round(s / 60) + " min" : Math.round(s) + " s";
function make(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes || {})) if (k === "text") e.textContent = v; else e.setAttribute(k, v);
    e.append(...children);
    return e;
}
function draw(name, attributes, text) {
    const e = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
}
async function ask(what, tree) {
    const answer = await fetch("/api/" + what, {method: "POST", body: JSON.stringify(tree || {}),
        headers: {"Content-Type": "application/json", "X-Moao-Token": token}});
    return answer.json();
}
const settings = () => ({values: state.values, order: state.order, profile: state.profile});
function colour(table, f) {
    const t = Math.min(Math.max(f, 0), 1) * (table.length - 1), i = Math.min(Math.floor(t), table.length - 2), r = t - i;
    return table[i].map((v, k) => Math.round(v + r * (table[i + 1][k] - v)));
}

// --- what can be moved

const picks = facts.sensors.map((s, i) => ({key: "sensors[" + i + "].direction", name: s.name, kind: s.type, at: s.direction.slice(), start: s.direction.slice()}));
if (facts.targets.list) facts.targets.list.forEach((t, i) => picks.push({key: "targets.list[" + i + "]", name: t.name || "target " + (i + 1),
    kind: "target", at: t.direction.slice(), start: t.direction.slice()}));
else picks.push({key: "targets.grid.center", name: "centre of the " + facts.targets.grid.nx + " × " + facts.targets.grid.ny + " targets", kind: "target",
    at: facts.field[0].slice(), start: facts.field[0].slice()});
const KIND = {lgs: "laser star ", ngs: "natural star ", target: ""};

function reach() {
    const far = Math.max(...picks.map(p => Math.max(Math.abs(p.at[0]), Math.abs(p.at[1]))), Math.max(...facts.field[1]) / 2, 5);
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find(s => s * 6 >= far) || far / 5;
    return {half: far * 1.12, step: step};
}
let view = reach();
const px = x => BOX.left + (x / view.half + 1) / 2 * BOX.side;
const py = y => BOX.top + (1 - y / view.half) / 2 * BOX.side;
function direction(event) {
    const m = element("map").getScreenCTM().inverse(), p = new DOMPoint(event.clientX, event.clientY).matrixTransform(m);
    return [((p.x - BOX.left) / BOX.side * 2 - 1) * view.half, (1 - (p.y - BOX.top) / BOX.side * 2) * view.half];
}
const rounded = v => Math.round(v * 10) / 10;

function shape(pick) {
    if (pick.kind === "ngs") return draw("circle", {r: 7, fill: "#ffffffcc", stroke: "#b8390f", "stroke-width": 2.2});
    if (pick.kind === "target") return draw("path", {d: "M0-8L8 0L0 8L-8 0Z", fill: "#ffffffaa", stroke: "#1d1f23", "stroke-width": 1.8});
    const points = [...Array(10).keys()].map(k => [(k % 2 ? 4 : 10) * Math.sin(k * Math.PI / 5), -(k % 2 ? 4 : 10) * Math.cos(k * Math.PI / 5)]);
    return draw("polygon", {points: points.map(p => p.map(v => v.toFixed(2)).join()).join(" "), fill: "#ffd54a", stroke: "#7a4b00", "stroke-width": 1.4});
}
function movePick(pick, at) {
    pick.at = [rounded(at[0]), rounded(at[1])];
    if (pick.at[0] === pick.start[0] && pick.at[1] === pick.start[1]) delete state.values[pick.key];
    else state.values[pick.key] = pick.at;
    putPick(pick);
}
function putPick(pick) {
    const label = pick.node.querySelector("text"), right = px(pick.at[0]) > BOX.left + 0.8 * BOX.side;   // the label stays inside the map
    if (label) { label.setAttribute("x", right ? -12 : 12); label.setAttribute("text-anchor", right ? "end" : "start"); }
    pick.node.setAttribute("transform", "translate(" + px(pick.at[0]).toFixed(2) + " " + py(pick.at[1]).toFixed(2) + ")");
    pick.node.setAttribute("aria-label", KIND[pick.kind] + pick.name + " at " + place(pick.at) + ", arrow keys move it");
}
function makePick(pick) {
    const g = pick.node = draw("g", {class: "pick", tabindex: 0, role: "button", "data-key": pick.key});
    g.append(draw("circle", {r: 13, class: "halo"}), shape(pick));
    if (pick.kind !== "target" || facts.targets.list) g.append(draw("text", {x: 12, y: -8, "paint-order": "stroke", stroke: "#ffffffdd", "stroke-width": 3}, pick.name));
    g.append(draw("title", {}, pick.name));
    g.addEventListener("pointerdown", e => {
        if (e.button) return;
        e.preventDefault();
        g.focus();
        g.setPointerCapture(e.pointerId);
        g.classList.add("dragged");
        const from = direction(e), offset = [pick.at[0] - from[0], pick.at[1] - from[1]], before = pick.at.slice();
        const move = m => { const p = direction(m); movePick(pick, [p[0] + offset[0], p[1] + offset[1]]); };
        const up = m => {
            g.removeEventListener("pointermove", move);
            g.classList.remove("dragged");
            if (m.type === "pointercancel") movePick(pick, before);
            else if (pick.at.join() !== before.join()) change(0);
        };
        g.addEventListener("pointermove", move);
        g.addEventListener("pointerup", up, {once: true});
        g.addEventListener("pointercancel", up, {once: true});
    });
    if (pick.kind === "target") g.addEventListener("focus", () => setCursor(pick.at));
    g.addEventListener("keydown", e => {
        const step = arrow(e);
        if (step) { movePick(pick, [pick.at[0] + step[0], pick.at[1] + step[1]]); change(WAIT); }
    });
    return g;
}
function arrow(e) {
    const way = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[e.key];
    if (!way) return null;
    e.preventDefault();
    return way.map(v => v * (e.shiftKey ? 5 : 1));
}

// --- the map

const quantity = () => state.map.quantities[+element("quantity").value] || state.map.quantities[0];
const reducedMap = () => quantity().values[+element("wave").value];
const average = a => a.reduce((x, y) => x + y, 0) / a.length;
function scaling() {   // by which the map at reduced order is nearest to the full one in the directions that were compared; null: none asked for or known
    const row = element("scaled").checked && state.compared && state.compared.rows.find(r => r.name === quantity().name);
    if (!row) return null;
    const full = row.full[+element("wave").value], small = row.reduced[+element("wave").value], factor = average(full) / average(small);
    return Number.isFinite(factor) && factor > 0 ? {factor: factor, left: Math.max(...small.map((v, k) => Math.abs(v * factor - full[k])))} : null;
}
function shown() {
    const s = scaling();
    return s ? reducedMap().map(v => v * s.factor) : reducedMap();
}
function at(values, x, y) {   // between the directions of the map, linearly; null outside
    const m = state.map, fx = m.x.length < 2 ? 0 : (x - m.x[0]) / (m.x[m.x.length - 1] - m.x[0]) * (m.x.length - 1);
    const fy = m.y.length < 2 ? 0 : (y - m.y[0]) / (m.y[m.y.length - 1] - m.y[0]) * (m.y.length - 1);
    if (!(fx > -1e-6 && fy > -1e-6 && fx < m.x.length - 1 + 1e-6 && fy < m.y.length - 1 + 1e-6)) return null;
    const i = Math.min(Math.max(Math.floor(fx), 0), m.x.length - 2), j = Math.min(Math.max(Math.floor(fy), 0), m.y.length - 2), a = fx - i, b = fy - j, n = m.x.length;
    return (1 - b) * ((1 - a) * values[j * n + i] + a * values[j * n + i + 1]) + b * ((1 - a) * values[(j + 1) * n + i] + a * values[(j + 1) * n + i + 1]);
}
function limits(values) {
    const v = values.filter(x => x !== null), low = Math.min(...v), high = Math.max(...v);
    return high - low > 1e-9 * Math.abs(high) ? [low, high] : [low - 0.5e-3, high + 0.5e-3];
}
function picture(values, low, high) {
    const c = document.createElement("canvas"), n = c.width = c.height = 145, m = state.map, g = c.getContext("2d"), d = g.createImageData(n, n);
    for (let j = 0; j < n; j++) for (let i = 0; i < n; i++) {
        const v = at(values, m.x[0] + (m.x[m.x.length - 1] - m.x[0]) * i / (n - 1), m.y[m.y.length - 1] + (m.y[0] - m.y[m.y.length - 1]) * j / (n - 1));
        d.data.set([...colour(VIRIDIS, (v - low) / (high - low)), 255], 4 * (j * n + i));
    }
    g.putImageData(d, 0, 0);
    return c.toDataURL();
}
function axes(svg) {
    svg.append(draw("rect", {x: BOX.left, y: BOX.top, width: BOX.side, height: BOX.side, fill: "#eceef1", stroke: "#50565f"}));
    svg.append(draw("g", {id: "map-picture"}));
    for (let k = Math.ceil(-view.half / view.step); k * view.step <= view.half; k++) {
        const v = k * view.step, bottom = BOX.top + BOX.side;
        svg.append(draw("path", {d: "M" + px(v) + " " + bottom + "v5M" + BOX.left + " " + py(v) + "h-5", stroke: "#50565f"}));
        svg.append(draw("text", {x: px(v), y: bottom + 18, "text-anchor": "middle"}, minus(String(v))));
        svg.append(draw("text", {x: BOX.left - 9, y: py(v) + 4, "text-anchor": "end"}, minus(String(v))));
    }
    svg.append(draw("text", {x: BOX.left + BOX.side / 2, y: BOX.top + BOX.side + 38, "text-anchor": "middle"}, "x [arcsec]"));
    svg.append(draw("text", {transform: "translate(16 " + (BOX.top + BOX.side / 2) + ") rotate(-90)", "text-anchor": "middle"}, "y [arcsec]"));
    svg.append(draw("g", {id: "bar"}));
}
function bar(parent, box, table, low, high, label, across) {
    const n = 48;
    for (let k = 0; k < n; k++) {
        const fill = "rgb(" + colour(table, (k + 0.5) / n).join() + ")";
        parent.append(across ? draw("rect", {x: box.x + k * box.w / n, y: box.y, width: box.w / n + 0.6, height: box.h, fill: fill})
            : draw("rect", {x: box.x, y: box.y + box.h - (k + 1) * box.h / n, width: box.w, height: box.h / n + 0.6, fill: fill}));
    }
    const steps = across ? high - low : 4;   // across: of decades
    for (let k = 0; k <= steps; k++) {
        const v = low + (high - low) * k / steps;
        parent.append(across ? draw("text", {x: box.x + box.w * k / steps, y: box.y + box.h + 14, "text-anchor": k === 0 ? "start" : k === steps ? "end" : "middle"}, power(v))
            : draw("text", {x: box.x + box.w + 5, y: box.y + box.h * (1 - k / steps) + 4}, number(v)));
    }
    if (!across) parent.append(draw("text", {transform: "translate(" + (box.x + box.w + 58) + " " + (box.y + box.h / 2) + ") rotate(-90)", "text-anchor": "middle"}, label));
}
function drawField() {
    const svg = element("map");
    view = reach();
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
    svg.replaceChildren();
    axes(svg);
    svg.append(makeCross());
    picks.forEach(p => { svg.append(makePick(p)); putPick(p); });
    drawMap();
    if (focused) { const node = svg.querySelector('[data-key="' + focused + '"]'); if (node) node.focus(); }
}
function drawMap() {
    const group = element("map-picture"), side = element("bar");
    if (!state.map || !group) return;
    const q = quantity(), v = shown(), [low, high] = limits(v), m = state.map, x0 = m.x[0], x1 = m.x[m.x.length - 1], y0 = m.y[0], y1 = m.y[m.y.length - 1];
    const image = draw("image", {x: px(x0), y: py(y1), width: px(x1) - px(x0), height: py(y0) - py(y1), preserveAspectRatio: "none"});
    image.setAttribute("href", picture(v, low, high));
    group.replaceChildren(image);
    side.replaceChildren();
    const label = q.label + (q.unit ? " [" + q.unit + "]" : "") + (q.term ? "" : " at " + m.waves[+element("wave").value]);
    bar(side, {x: BOX.left + BOX.side + 16, y: BOX.top, w: 15, h: BOX.side}, VIRIDIS, low, high, label, false);
    const mean = average(v), scaled = scaling();
    element("numbers").textContent = label + (scaled ? ", estimate of the full order (× " + scaled.factor.toFixed(3) + ", within " + number(scaled.left) + " of it in " + facts.probes + " directions)" : "") + ": min " + number(low) + ", mean " + number(mean) + ", max " + number(high) + " over " + m.x.length + " × " + m.y.length +
        " directions; r0 " + (100 * m.r0).toFixed(1) + " cm along the line of sight at 500 nm.";
    showCursor();
}
function fill(select, labels) {
    const old = select.value;
    select.replaceChildren(...labels.map((t, i) => make("option", {value: i, text: t})));
    select.value = labels[+old] !== undefined && old !== "" ? old : "0";
}
function showMap(map, seconds) {
    state.map = map;
    map.waves = map.waves.map(written);
    map.quantities.forEach(q => { q.unit = written(q.unit); });
    fill(element("quantity"), map.quantities.map(q => q.label + (q.unit ? " [" + q.unit + "]" : "")));
    fill(element("wave"), map.waves);
    element("reduction").textContent = "Reduced: " + map.order + " of " + map.full + " subapertures across, slopes between points, mean structure function, one exposure" +
        (facts.exposures > 1 ? " of " + facts.exposures : "") + "; " + map.measurements + " measurements; map from " + map.nodes + " nodes, within " +
        map.between.toExponential(0) + " of " + map.compared + " computed directions. Error against the full order: " + shortError();
    element("status").textContent = "Map of the settings shown; computed in " + seconds.toFixed(2) + " s.";
    element("status").className = "good";
    element("map").dataset.serial = map.serial;
    element("warnings").replaceChildren(...map.warnings.map(w => make("li", {text: w})));
    element("warned").hidden = !map.warnings.length;
    drawField();
    drawBudget();
    askImage();
}

// --- changes

let timer = null, quiet = null;
function change(wait) {
    clearTimeout(timer);
    clearTimeout(quiet);
    timer = setTimeout(send, wait);
}
async function send() {
    const mine = ++state.serial, began = performance.now();
    element("status").textContent = "Computing…";
    element("status").className = "busy";
    state.compared = null;
    showCompared();
    let answer;
    try {
        answer = await ask("change", settings());
    } catch (e) {
        answer = {errors: [{key: null, text: "moao lab does not answer: was it ended?"}]};
    }
    if (mine !== state.serial) return;
    document.querySelectorAll(".control .error").forEach(e => { e.textContent = ""; });
    element("error").textContent = "";
    if (answer.errors) return showErrors(answer.errors);
    if (answer.superseded) return;
    showMap(answer, (performance.now() - began) / 1000);
    if (facts.automatic && answer.measurementsFull <= facts.automatic) quiet = setTimeout(compare, QUIET);
}
function showErrors(errors) {
    element("status").textContent = "The map is that of the settings before.";
    element("status").className = "busy";
    for (const e of errors) {
        const words = String(e.text), key = e.key || "";
        const control = [...document.querySelectorAll("[data-control]")].find(c => key && (key === c.dataset.control || c.dataset.also && key.startsWith(c.dataset.also)));
        (control ? control.querySelector(".error") : element("error")).textContent = words;
        if (control && control.closest("details")) control.closest("details").open = true;
    }
}

// --- sliders

function slider(parent, o) {
    const id = "c" + parent.children.length + "-" + Math.random().toString(36).slice(2, 7), value = make("output", {class: "value", for: id});
    const input = make("input", {type: "range", id: id, min: o.min, max: o.max, step: o.step, "aria-label": o.label + (o.unit ? " in " + o.unit : "")});
    const box = make("div", {class: "control", "data-control": o.key, ...(o.also ? {"data-also": o.also} : {})},
        make("label", {for: id}, make("span", {text: o.label}), value), input, make("p", {class: "error", role: "alert"}));
    const show = () => {
        const v = o.get();
        const text = minus((+v.toPrecision(6)).toLocaleString("en")) + (o.unit ? " " + o.unit : "");
        value.textContent = text;
        input.setAttribute("aria-valuetext", text);
        box.classList.toggle("set", o.key in state.values);
    };
    input.addEventListener("input", () => { o.set(+input.value); show(); change(WAIT); });
    o.refresh = () => { input.value = o.get(); show(); };
    parent.append(box);
    controls.push(o);
    o.refresh();
}
const controls = [];
function plainSlider(parent, key, start, o) {
    slider(parent, Object.assign({key: key, get: () => key in state.values ? state.values[key] : start,
        set: v => { if (v === start) delete state.values[key]; else state.values[key] = v; }}, o));
}
function group(title, open) {
    const d = make("details", open ? {open: ""} : {}, make("summary", {text: title}));
    element("sliders").append(d);
    return d;
}
function profileControls() {
    const p = state.profile, prof = facts.profiles[p], box = element("layers");
    for (let i = controls.length - 1; i >= 0; i--) if (controls[i].ofProfile) controls.splice(i, 1);
    box.replaceChildren();
    const name = "atmosphere.profiles[" + p + "]", fractions = name + ".layers.fraction";
    plainSlider(box, name + ".seeing", +prof.seeing.toFixed(3), {label: "Seeing at 500 nm, zenith", unit: "″", min: 0.3, max: 2.5, step: 0.01, ofProfile: true});
    const now = () => state.values[fractions] || prof.fraction.map(f => +f.toFixed(3));
    prof.altitude.forEach((h, i) => slider(box, {key: fractions + "#" + i, also: fractions, label: "Turbulence at " + +(h / 1000).toPrecision(3) + " km", unit: "", min: 0, max: 1,
        step: 0.01, ofProfile: true, get: () => now()[i], set: v => { const f = now().slice(); f[i] = v; state.values[fractions] = f; }}));
}
function makeControls() {
    const general = element("sliders"), orders = make("select", {id: "order"});
    facts.orders.forEach(o => orders.append(make("option", {value: o, text: o === facts.full ? o + " (full)" : o + " of " + facts.full})));
    orders.value = facts.order;
    orders.addEventListener("change", () => { state.order = +orders.value; change(0); });
    general.append(make("div", {class: "control row"}, make("label", {for: "order", text: "Subapertures across in the map"}), orders));
    plainSlider(general, "telescope.zenith", facts.zenith, {label: "Zenith angle", unit: "°", min: 0, max: 70, step: 1});
    plainSlider(general, "dm.nssp", facts.nssp, {label: "Mirror: subapertures across, full order", unit: "", min: Math.max(2, Math.floor(facts.nssp / 2)), max: facts.nssp * 2, step: 1});
    const atmosphere = group("Atmosphere", true);
    if (facts.profiles.length > 1) {
        const times = make("select", {id: "profile"});
        facts.profiles.forEach((p, i) => times.append(make("option", {value: i, text: (i + 1) + ": from " + +(p.time / 60).toPrecision(4) + " min, " + p.seeing.toFixed(2) + "″"})));
        times.addEventListener("change", () => { state.profile = +times.value; profileControls(); change(0); });
        atmosphere.append(make("div", {class: "control row"}, make("label", {for: "profile", text: "Profile"}), times));
    }
    atmosphere.append(make("div", {id: "layers"}));
    profileControls();
    const stars = group("Guide stars", false);
    facts.sensors.forEach((s, i) => {
        if (s.magnitude !== null) plainSlider(stars, "sensors[" + i + "].magnitude", s.magnitude, {label: s.name + ", magnitude", unit: s.band === "auto" ? "mag" : s.band,
            min: Math.min(4, s.magnitude), max: Math.max(18, s.magnitude), step: 0.1});
        if (s.lgs_return !== null) plainSlider(stars, "sensors[" + i + "].lgs_return", s.lgs_return, {label: s.name + ", return", unit: "ph/m²/s",
            min: 1e6, max: Math.max(3e7, s.lgs_return), step: 1e5});
    });
}

// --- cursor and image

let resting = null, asking = false, again = false;
function makeCross() {
    const g = draw("g", {class: "pick", tabindex: 0, role: "button", "data-key": "cursor", id: "cross"});
    g.append(draw("circle", {r: 9, class: "halo"}), draw("path", {d: "M-9 0h18M0-9v18", stroke: "#fff", "stroke-width": 4}), draw("path", {d: "M-9 0h18M0-9v18", stroke: "#d6006c", "stroke-width": 1.8}));
    g.style.pointerEvents = "none";
    g.addEventListener("keydown", e => { const s = arrow(e); if (s) setCursor([state.cursor[0] + s[0], state.cursor[1] + s[1]]); });
    return g;
}
function inside(p) {
    const m = state.map, clamp = (v, a) => Math.min(Math.max(v, a[0]), a[a.length - 1]);
    return [clamp(p[0], m.x), clamp(p[1], m.y)];
}
function setCursor(p) {
    if (!state.map) return;
    state.cursor = inside(p).map(rounded);
    state.cursor = inside(state.cursor);
    showCursor();
    drawBudget();
    clearTimeout(resting);
    resting = setTimeout(askImage, REST);
}
function showCursor() {
    const cross = element("cross");
    if (!cross || !state.map) return;
    if (!state.cursor) state.cursor = [state.map.x[state.map.x.length >> 1], state.map.y[state.map.y.length >> 1]];
    state.cursor = inside(state.cursor);
    cross.setAttribute("transform", "translate(" + px(state.cursor[0]) + " " + py(state.cursor[1]) + ")");
    cross.setAttribute("aria-label", "Cursor at " + place(state.cursor) + ": " + quantity().label + " " + number(at(shown(), ...state.cursor)) + ", arrow keys move it");
}
async function askImage() {
    if (!state.map || !state.cursor) return;
    if (asking) { again = true; return; }
    asking = true;
    try {
        const wave = +element("wave").value, p = await ask("psf", {x: state.cursor[0], y: state.cursor[1], wave: wave});
        if (p.errors) element("psf-text").textContent = p.errors[0].text; else showImage(p, wave);
    } catch (e) { /* the next change says that there is no answer */ }
    asking = false;
    if (again) { again = false; askImage(); }
}
function showImage(p, wave) {
    const c = element("psf"), n = c.width = c.height = p.side, g = c.getContext("2d"), d = g.createImageData(n, n), high = 0, low = -5;
    p.image.forEach((v, k) => { const i = k % n, j = n - 1 - Math.floor(k / n); d.data.set([...colour(FIRE, (v - low) / (high - low)), 255], 4 * (j * n + i)); });
    g.putImageData(d, 0, 0);
    const svg = element("psf-bar");
    svg.replaceChildren();
    bar(svg, {x: 4, y: 4, w: 312, h: 10}, FIRE, low, high, "", true);
    const words = "At " + place([p.x, p.y]) + ", " + state.map.waves[wave] + ": Strehl ratio " + p.strehl.toFixed(3) + ", FWHM " + number(p.fwhm) + " mas, " +
        p.boxes.map((b, i) => "EE in " + b + " mas " + number(p.ee[i])).join(", ") + ". " + n + " × " + n + " pixels of " + p.pixel.toFixed(2) + " mas (" +
        (n * p.pixel / 1000).toFixed(2) + "″); the diffraction limit peaks at 1, logarithmic colours.";
    element("psf-text").textContent = words;
    c.setAttribute("aria-label", "Point-spread function. " + words);
    state.image = p;
}
function meter(part) {
    const svg = draw("svg", {viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", height: 10});
    svg.append(draw("rect", {x: 0, y: 1, width: (100 * part).toFixed(1), height: 8}));
    return svg;
}
function drawBudget() {
    if (!state.map) return;
    const rows = state.map.quantities.filter(q => q.term).map(q => {
        const v = q.values[0], square = v.reduce((a, b) => a + b * Math.abs(b), 0) / v.length;
        return [q.label, Math.sign(square) * Math.sqrt(Math.abs(square)), state.cursor ? at(v, ...state.cursor) : null, q.name];
    });
    if (!rows.length) { element("budget").replaceChildren(make("caption", {text: "This case has no error budget: mirrors that targets share, or output.budget: none."})); return; }
    const top = Math.max(...rows.map(r => Math.abs(r[1])), 1), table = element("budget");
    table.replaceChildren(make("tr", {}, make("th", {text: "term", scope: "col"}), make("th", {text: "field", scope: "col"}), make("th", {text: "cursor", scope: "col"}),
        make("th", {class: "bar"}, make("span", {class: "hidden", text: "bar"}))));
    for (const [label, field, here, name] of rows) table.append(make("tr", {"data-term": name}, make("td", {text: label}), make("td", {text: minus(field.toFixed(1))}),
        make("td", {text: here === null ? "–" : minus(here.toFixed(1))}), make("td", {class: "bar"}, meter(Math.abs(field) / top))));
}

// --- reduced against full order

async function compare() {
    clearTimeout(quiet);
    element("accuracy-text").textContent = "Computing the full order in " + facts.probes + " directions, in the background…";
    const answer = await ask("compare").catch(() => ({errors: [{text: "moao lab does not answer: was it ended?"}]}));
    if (answer.errors) element("accuracy-text").textContent = answer.errors[0].text;
    else if (!answer.superseded && state.map && answer.serial === state.map.serial) { state.compared = answer; showCompared(); }
}
function differences() {
    return state.compared.rows.map(r => ({name: r.name, waves: r.full.map((f, il) => {
        const d = r.reduced[il].map((v, k) => v - f[k]), mean = a => a.reduce((x, y) => x + y, 0) / a.length;
        return {full: mean(f), small: mean(r.reduced[il]), low: Math.min(...d), high: Math.max(...d)};
    })}));
}
const signed = v => (v >= 0 ? "+" : "") + number(v);
function shortError() {
    if (!state.compared) return "not computed yet for these settings (below).";
    const s = differences().find(r => r.name === "STREHL");
    return state.map.waves.map((w, il) => "Strehl ratio at " + w + " " + signed(s.waves[il].low) + " to " + signed(s.waves[il].high)).join(", ") + " (reduced minus full, " + facts.probes + " directions).";
}
function showCompared() {
    const table = element("accuracy-table"), text = element("reduction");
    table.replaceChildren();
    element("scaled").disabled = !state.compared;
    if (state.map) drawMap();
    if (state.map) text.textContent = text.textContent.replace(/(full order: ).*$/, (m, a) => a + shortError());
    if (!state.compared) { element("accuracy-text").textContent = "How far the reduced order is from a run in full order of the same settings and exposure, in " + facts.probes + " directions of the map: not computed yet."; return; }
    element("accuracy-text").textContent = "Reduced minus full order, same settings and exposure, at " + state.compared.directions.map(place).join(", ") + ".";
    table.append(make("tr", {}, ...["figure", "full, mean", "reduced, mean", "difference from", "to"].map(t => make("th", {text: t, scope: "col"}))));
    for (const r of differences()) {
        const q = state.map.quantities.find(k => k.name === r.name);
        (q.term ? r.waves.slice(0, 1) : r.waves).forEach((w, il) => table.append(make("tr", {}, make("td", {text: q.label + (q.unit ? " [" + q.unit + "]" : "") + (q.term ? "" : " at " + state.map.waves[il])}),
            make("td", {text: number(w.full)}), make("td", {text: number(w.small)}), make("td", {text: signed(w.low)}), make("td", {text: signed(w.high)}))));
    }
}

// --- run in full, export

async function follow() {
    const s = await ask("progress").catch(() => ({state: "failed", text: "moao lab does not answer: was it ended?"}));
    showRun(s);
    if (s.state === "running" || s.state === "stopping") setTimeout(follow, 500);
}
function showRun(s) {
    const busy = s.state === "running" || s.state === "stopping", barNode = element("run-bar");
    element("run").disabled = busy;
    element("stop").disabled = !busy;
    element("stop").textContent = s.state === "stopping" ? "Stop now" : "Stop";
    barNode.hidden = !busy;
    if (s.done !== null && s.done !== undefined) barNode.value = s.done; else barNode.removeAttribute("value");
    element("run-error").textContent = s.state === "failed" ? s.text : "";
    element("run-text").dataset.state = s.state;
    element("run-text").textContent = s.state === "none" ? "" : s.state === "running" ? Math.round(100 * (s.done || 0)) + " %, " + s.step + (s.left_s === null ? "" : ", " + clock(s.left_s) + " left") + ". Results in " + s.folder + "."
        : s.state === "stopping" ? "Stopping at the next checkpoint." : s.state === "stopped" ? s.text : s.state === "done" ? "Done, in " + s.folder + ". " +
        s.results.map(r => "Strehl ratio at " + r.wave + ": mean " + r.mean.toFixed(3) + ", " + r.min.toFixed(3) + " to " + r.max.toFixed(3)).join("; ") + "." : "";
}
async function runFull() {
    element("run").disabled = true;
    element("run-error").textContent = "";
    element("run-text").textContent = "Starting…";
    const answer = await ask("run", settings()).catch(() => ({errors: [{text: "moao lab does not answer: was it ended?"}]}));
    if (answer.errors) { element("run").disabled = false; element("run-text").textContent = ""; element("run-error").textContent = answer.errors.map(e => e.text).join("; "); } else follow();
}
async function save(small) {
    const answer = await ask("export", Object.assign(settings(), {small: small})).catch(() => ({errors: [{text: "moao lab does not answer: was it ended?"}]}));
    if (answer.errors) { element("run-error").textContent = answer.errors.map(e => e.text).join("; "); return; }
    const link = make("a", {download: small ? "moao-lab-map.yaml" : "moao-lab.yaml"});
    link.href = URL.createObjectURL(new Blob([answer.text], {type: "application/yaml"}));
    link.click();
    URL.revokeObjectURL(link.href);
}

// --- start

element("title").textContent = facts.title;
element("summary").textContent = facts.diameter + " m telescope, " + facts.mode.toUpperCase() + ", " + facts.sensors.length + " sensors" +
    (facts.targets.list && facts.targets.number > facts.targets.list.length ? "; the first " + facts.targets.list.length + " of " + facts.targets.number + " targets are drawn" : "");
makeControls();
drawField();
showCompared();
element("quantity").addEventListener("change", () => { drawMap(); });
element("scaled").addEventListener("change", drawMap);
element("wave").addEventListener("change", () => { drawMap(); askImage(); });
element("map").addEventListener("pointermove", e => { if (!e.buttons && state.map && at(shown(), ...direction(e)) !== null) setCursor(direction(e)); });
element("compare").addEventListener("click", compare);
element("run").addEventListener("click", runFull);
element("stop").addEventListener("click", async () => showRun(await ask("stop")));
element("export").addEventListener("click", () => save(false));
element("export-small").addEventListener("click", () => save(true));
element("reset").addEventListener("click", () => {
    state.values = {};
    picks.forEach(p => { p.at = p.start.slice(); });
    controls.forEach(c => c.refresh());
    drawField();
    change(0);
});
follow();
change(0);
document.body.dataset.ready = "yes";
