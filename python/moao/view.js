"use strict";
// The page of moao-view: what is chosen (quantity, wavelength, exposure, target) and the panels that follow from it.
const run = JSON.parse(document.getElementById("data").textContent);
const state = {quantity: 0, wave: 0, exposure: 0, scale: "common", target: run.start};  // exposure 0: the long one
const COLOURS = ["#1f4e79", "#b8540f", "#2e7d32", "#6a3d9a", "#8a6d00", "#00838f"];
const SIGNS = [[0, "#2166ac"], [0.5, "#f7f7f7"], [1, "#b2182b"]];  // for values of both signs, white at zero
const FIRE = [[0, "#000004"], [0.25, "#57106e"], [0.5, "#bc3754"], [0.75, "#f98e09"], [1, "#fcffa4"]];
const CONFIG = {displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]};
const element = id => document.getElementById(id);

// --- values

const quantity = () => run.quantities[state.quantity];
const lambda = il => run.bands[il] || run.waves[il].toPrecision(3).replace(/\.?0+$/, "") + " µm";
const exposureName = e => e === 0 ? (run.times.length === 1 ? "the only exposure" : "long exposure") : "t = " + +(run.times[e - 1] / run.unit[0]).toPrecision(4) + " " +
    run.unit[1];
const values = (q, il, e) => e === 0 ? q.long[il] : q.short[il][e - 1];
const number = v => v === null ? "–" : minus(Math.abs(v) >= 100 ? v.toFixed(1) : Math.abs(v) >= 10 ? v.toFixed(2) :
    v.toFixed(4));
const arcsec = v => +v.toPrecision(4) + "″";
const targetName = t => (run.names ? run.names[t] + " " : "target " + (t + 1) + " ") + "(" + arcsec(run.x[t]) + ", " +
    arcsec(run.y[t]) + ")";
const withUnit = q => q.label + (q.unit ? " [" + q.unit + "]" : "");
const plain = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");  // Plotly takes tags for tags
const minus = text => text.replace(/^-/, "−");

function limits(lists) {
    const v = lists.flat().filter(x => x !== null);
    const low = Math.min(...v), high = Math.max(...v);
    return v.length === 0 ? [0, 1] : high > low ? [low, high] : [low - 0.01, high + 0.01];
}

// --- drawing

function layout(x, y, more) {
    return Object.assign({margin: {l: 62, r: 12, t: 32, b: 44}, hovermode: "closest", showlegend: false,
        xaxis: {title: {text: plain(x)}, zeroline: false}, yaxis: {title: {text: plain(y)}, zeroline: false}}, more);
}

function compass() {
    if (run.angle === null) return [];
    const a = run.angle * Math.PI / 180, parts = [];
    for (const [word, dx, dy] of [["N", Math.sin(a), Math.cos(a)], ["E", -Math.cos(a), Math.sin(a)]]) {
        const at = {xref: "x domain", yref: "y domain", x: 0.9, y: 0.12};
        parts.push(Object.assign({text: "", showarrow: true, arrowhead: 2, arrowwidth: 1.5, ax: -26 * dx, ay: 26 * dy,
            xshift: 26 * dx, yshift: 26 * dy}, at));
        parts.push(Object.assign({text: word, showarrow: false, xshift: 36 * dx, yshift: 36 * dy}, at));
    }
    return parts;
}

function drawMap() {
    const q = quantity(), v = values(q, state.wave, state.exposure);
    const all = state.scale === "common" ? [q.long[state.wave], ...q.short[state.wave]] : [v];
    let [low, high] = limits(all);
    const signed = q.error && low < 0;
    if (signed) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
    const colours = signed ? SIGNS : "Viridis";
    const bar = {title: {text: plain(withUnit(q)) + (signed ? "<br>below 0: negative variance" : ""), side: "right"}, thickness: 14};
    const text = v.map((z, t) => plain(targetName(t)) + "<br>" + plain(q.label) + " " + number(z));
    const traces = [];
    if (run.grid) {
        const [nx, ny] = run.grid, rows = a => Array.from({length: ny}, (_, j) => a.slice(j * nx, (j + 1) * nx));
        traces.push({type: "heatmap", x: run.x.slice(0, nx), y: Array.from({length: ny}, (_, j) => run.y[j * nx]),
            z: rows(v), text: rows(text), hoverinfo: "text", zmin: low, zmax: high, colorscale: colours, colorbar: bar});
    } else {
        traces.push({type: "scatter", mode: "markers", x: run.x, y: run.y, text: text, hoverinfo: "text",
            marker: {symbol: "square", size: run.x.length < 50 ? 16 : 8, color: v, cmin: low, cmax: high,
                colorscale: colours, colorbar: bar, line: {color: "black", width: 0.5}}});
    }
    for (const [kind, symbol, colour, edge] of [["LGS", "star", "#ff9d1e", "black"], ["NGS", "circle", "white", "#c4122f"]]) {
        const s = run.stars.filter(g => g.type === kind);
        traces.push({type: "scatter", mode: "markers", x: s.map(g => g.x), y: s.map(g => g.y),
            text: s.map(g => plain(g.name || kind)), hoverinfo: "text",
            marker: {symbol: symbol, size: kind === "LGS" ? 15 : 10, color: colour, line: {color: edge, width: 1.5}}});
    }
    traces.push({type: "scatter", mode: "markers", x: [run.x[state.target]], y: [run.y[state.target]], hoverinfo: "skip",
        marker: {symbol: "square-open", size: 20, color: "#d40000", line: {width: 3}}});
    const axis = (text, range) => ({title: {text: text}, range: range, zeroline: false});
    Plotly.react("map", traces, layout("", "", {annotations: compass(), plot_bgcolor: "#e9e9ec",
        xaxis: Object.assign(axis("x [arcsec]", run.field.slice(0, 2)), {constrain: "domain"}),
        yaxis: Object.assign(axis("y [arcsec]", run.field.slice(2)), {scaleanchor: "x", constrain: "domain"})}), CONFIG);
    const there = v.filter(z => z !== null), mean = there.reduce((a, b) => a + b, 0) / there.length;
    element("map-title").textContent = withUnit(q) + (q.error && q.unit === "nm" ? ", " : " at " + lambda(state.wave) + ", ") + exposureName(state.exposure) +
        (there.length ? ": min " + number(Math.min(...there)) + ", mean " + number(mean) + ", max " +
        number(Math.max(...there)) : ": no value");
}

const unpacked = {};
function image(index) {  // 16-bit logarithms of all targets of one wavelength and exposure
    if (!unpacked[index]) {
        const bytes = Uint8Array.from(atob(run.psf[index].data), c => c.charCodeAt(0));
        unpacked[index] = new Uint16Array(bytes.buffer);
    }
    return unpacked[index];
}

function drawPsf() {
    let index = run.psf.findIndex(p => p.wave === state.wave && p.exposure === state.exposure);
    let exposure = state.exposure;
    if (index < 0) {
        index = run.psf.findIndex(p => p.wave === state.wave && p.exposure === 0);
        exposure = 0;
    }
    const missing = element("psf-missing"), none = index < 0;
    missing.hidden = none || exposure === state.exposure;
    missing.textContent = missing.hidden ? "" : "No image of " + exposureName(state.exposure) + " is in this page: " + run.noShort +
        ". Below: the long exposure.";
    element("psf-fits").disabled = element("psf").hidden = element("psf-note").hidden = none;
    if (none) {
        element("psf-title").textContent = "PSF: no images were kept (output.psf)";
        return;
    }
    const p = run.psf[index], n = p.side, packed = image(index), first = state.target * n * n;
    const axis = Array.from({length: n}, (_, i) => (i - Math.floor(n / 2)) * p.pixel);
    const z = Array.from({length: n}, (_, j) => Array.from(packed.subarray(first + j * n, first + (j + 1) * n),
        v => p.low + v / 65535 * (p.high - p.low)));
    const peak = 10 ** z[Math.floor(n / 2)][Math.floor(n / 2)];
    const ticks = [-5, -4, -3, -2, -1, 0];
    Plotly.react("psf", [{type: "heatmap", x: axis, y: axis, z: z, zmin: p.top - 4.5, zmax: p.top, colorscale: FIRE,
        text: z.map(r => r.map(v => (10 ** v).toExponential(2))), hovertemplate: "%{x:.4g}, %{y:.4g} mas: %{text}<extra></extra>",
        colorbar: {title: {text: "of diffraction-limited peak", side: "right"}, thickness: 14, tickvals: ticks,
            ticktext: ticks.map(t => t === 0 ? "1" : "10<sup>" + t + "</sup>")}}],
        layout("x [mas]", "y [mas]", {xaxis: {title: {text: "x [mas]"}, constrain: "domain", zeroline: false},
            yaxis: {title: {text: "y [mas]"}, scaleanchor: "x", constrain: "domain", zeroline: false}}), CONFIG);
    element("psf-title").textContent = "PSF of " + targetName(state.target) + " at " + lambda(state.wave) + ", " +
        exposureName(exposure);
    element("psf-title").dataset.target = state.target;
    element("psf-note").textContent = "Peak (Strehl ratio) " + peak.toFixed(4) + "; " + n + " × " + n + " of " + p.kept +
        " × " + p.kept + " kept pixels of " + p.pixel.toPrecision(4) + " mas";
    state.image = index;
}

function row(table, cells, tag) {
    const tr = table.insertRow();
    return cells.map(text => {
        const cell = document.createElement(tag || "td");
        cell.textContent = text;
        return tr.appendChild(cell);
    });
}

function drawNumbers() {
    const table = element("numbers");
    table.replaceChildren();
    row(table, [""].concat(run.waves.map((_, il) => lambda(il))), "th");
    for (const q of run.quantities) {
        const cells = row(table, [withUnit(q)].concat(run.waves.map((_, il) =>
            number(values(q, il, state.exposure)[state.target]))));
        cells.slice(1).forEach((cell, il) => { cell.id = "value-" + q.name + "-" + il; });
    }
    element("numbers-title").textContent = targetName(state.target) + ", " + exposureName(state.exposure);
}

function drawEnergy() {
    const traces = [];
    run.waves.forEach((_, il) => {
        const colour = COLOURS[il % COLOURS.length], marks = run.quantities.filter(q => q.box);
        if (run.energy) {
            traces.push({type: "scatter", mode: "lines", x: run.energy.boxes[il], y: run.energy.values[il][state.target],
                name: lambda(il), line: {color: colour}});
        }
        traces.push({type: "scatter", mode: "markers", x: marks.map(q => q.box), y: marks.map(q => q.long[il][state.target]),
            name: lambda(il), showlegend: !run.energy, marker: {color: colour, size: 8}});
    });
    Plotly.react("energy", traces, layout("side of the box [mas]", "share of the light, long exposure",
        {showlegend: true, legend: {x: 0.98, y: 0.05, xanchor: "right", yanchor: "bottom"},
            xaxis: {title: {text: "side of the box [mas]"}, rangemode: "tozero"},
            yaxis: {title: {text: "share of the light, long exposure"}, range: [0, 1]}}), CONFIG);
}

function drawSeries() {
    const q = quantity(), alone = run.times.length === 1, traces = [];
    element("series-title").textContent = withUnit(q) + (alone ? " against wavelength" : " in time") + ", " +
        targetName(state.target);
    if (alone) {
        const order = run.waves.map((_, il) => il).sort((a, b) => run.waves[a] - run.waves[b]);
        traces.push({type: "scatter", mode: "lines+markers", x: order.map(il => run.waves[il]),
            y: order.map(il => q.long[il][state.target]), line: {color: COLOURS[0]}});
        Plotly.react("series", traces, layout("wavelength [µm]", withUnit(q), {}), CONFIG);
        return;
    }
    const times = run.times.map(t => t / run.unit[0]);
    run.waves.forEach((_, il) => traces.push({type: "scatter", mode: "lines+markers", x: times, name: lambda(il),
        y: q.short[il].map(v => v[state.target]), line: {color: COLOURS[il % COLOURS.length]}}));
    traces.push({type: "scatter", mode: "lines+markers", x: times, y: run.r0.map(v => v * 100), yaxis: "y2", name: "r<sub>0</sub>",
        line: {color: "black", dash: "dot"}});
    Plotly.react("series", traces, layout("time [" + run.unit[1] + "]", withUnit(q), {showlegend: true,
        margin: {l: 62, r: 62, t: 52, b: 44}, legend: {orientation: "h", y: 1.02, yanchor: "bottom"},
        yaxis2: {title: {text: "r<sub>0</sub> at 500 nm, line of sight [cm]"}, overlaying: "y", side: "right", showgrid: false,
            zeroline: false}}), CONFIG);
}

function drawTerms() {
    const path = run.waves[state.wave] * 1e3 / (2 * Math.PI);  // nm for one radian
    const nm = (q, v) => v === null ? null : q.unit === "nm" ? v : Math.sqrt(Math.max(v, 0)) * (q.unit === "nm2" ? 1 : path);
    const terms = run.quantities.filter(q => q.error);
    const length = terms.map(q => nm(q, values(q, state.wave, state.exposure)[state.target]));
    element("terms-title").textContent = "Error terms of " + targetName(state.target) + ", " + exposureName(state.exposure);
    const far = Math.max(0, ...length) || 1, near = Math.min(0, ...length);
    const letters = 66, across = element("terms").clientWidth - 150;  // pixels of a number beside its bar, and of the axis
    const room = (far - near) * letters / Math.max(across - letters * (near < 0 ? 2 : 1), 40);
    Plotly.react("terms", [{type: "bar", orientation: "h", y: terms.map(q => plain(q.label)), x: length,
        text: length.map(v => v === null ? "" : minus(v.toFixed(1)) + " nm"), textposition: "outside", cliponaxis: false,
        marker: {color: length.map(v => v < 0 ? COLOURS[1] : COLOURS[0])}, hoverinfo: "text"}],
        layout("wavefront error [nm rms]", "", {margin: {l: 130, r: 12, t: 32, b: 44},
            xaxis: {title: {text: "wavefront error [nm rms]"}, zeroline: true, range: [
                near < 0 ? near - room : 0, far + room]},
            yaxis: {autorange: "reversed", automargin: true}, bargap: terms.length < 3 ? 0.6 : 0.2}), CONFIG);
    element("terms-note").hidden = !length.some(v => v < 0);
}

function drawStars() {
    const table = element("stars"), keys = run.starColumns;
    row(table, ["name", "type", "x [″]", "y [″]"].concat(keys.map(k => k.label)), "th");
    for (const s of run.stars) {
        row(table, [s.name, s.type, s.x, s.y].concat(keys.map((_, i) => s.more[i] === null ? "–" :
            +s.more[i].toPrecision(3))));
    }
}

function draw() {
    drawMap();
    drawPsf();
    drawNumbers();
    drawEnergy();
    drawSeries();
    drawTerms();
    element("target").value = state.target;
}

// --- what can be saved

function cell(value) {  // as a spreadsheet needs it: nothing is a formula; a comma, a quote or a line break is quoted
    let text = value === null ? "" : String(value);
    if ((/^[=+\-@\t\r]/.test(text) && !/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text)) || /^'[=+\-@\t\r']/.test(text)) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
}

function table() {  // a line for each target, exposure (0: the long one) and wavelength
    const rows = [["target", "name", "x_arcsec", "y_arcsec", "exposure", "time_s", "wavelength_um"].concat(run.bands.some(b => b) ? ["band"] : []).concat(run.quantities.map(q =>
        q.name.toLowerCase() + (q.unit && !q.name.toLowerCase().endsWith(q.unit) ? "_" + q.unit : "")))];
    for (let e = 0; e <= (run.times.length === 1 ? 0 : run.times.length); e++) {
        run.waves.forEach((wave, il) => run.x.forEach((_, t) => rows.push([t + 1, run.names ? run.names[t] : "", run.x[t], run.y[t], e,
            e === 0 ? null : run.times[e - 1], wave].concat(run.bands.some(b => b) ? [run.bands[il]] : []).concat(run.quantities.map(q => values(q, il, e)[t])))));
    }
    return rows.map(r => r.map(cell).join(",") + "\n").join("");
}

function card(key, value, comment) {  // 80 characters of a FITS header, ASCII
    const text = typeof value === "string" ? "'" + value.replace(/'/g, "''").replace(/[^ -~]/g, "?").slice(0, 60).padEnd(8) + "'" :
        typeof value === "boolean" ? (value ? "T" : "F").padStart(20) : String(value).toUpperCase().padStart(20);
    return (key.padEnd(8) + "= " + text + (comment ? " / " + comment : "")).slice(0, 80).padEnd(80);
}

function psfFits() {  // the image of the panel: values as in psf.fits, the diffraction limit peaks at 1
    const p = run.psf[state.image], n = p.side, packed = image(state.image), first = state.target * n * n;
    const cards = [card("SIMPLE", true), card("BITPIX", -32), card("NAXIS", 2), card("NAXIS1", n), card("NAXIS2", n),
        card("TARGET", state.target + 1, "number of the target, from 1"), card("X", run.x[state.target], "[arcsec] direction of the target"),
        card("Y", run.y[state.target], "[arcsec]"), card("LAMBDA", run.waves[p.wave], "[um] wavelength"), card("BAND", run.bands[p.wave], "that the image is integrated over"),
        card("EXPOSURE", p.exposure, "number of the exposure, 0: the long one"), card("PIXEL", p.pixel, "[mas] side of a pixel"),
        card("CRPIX1", Math.floor(n / 2) + 1, "axis of the PSF"), card("CRPIX2", Math.floor(n / 2) + 1, "axis of the PSF"),
        card("CRVAL1", 0.0), card("CRVAL2", 0.0), card("CDELT1", p.pixel, "step"), card("CDELT2", p.pixel, "step"),
        card("CUNIT1", "mas"), card("CUNIT2", "mas"), card("BUNIT", "", "of the diffraction-limited peak"),
        card("KEPT", p.kept, "pixels of a side in psf.fits"),
        card("FLOOR", +(10 ** p.low).toPrecision(6), "smaller values are this one"),
        card("ROUNDED", +(Math.LN10 * (p.high - p.low) / 65535 / 2).toPrecision(3), "largest relative rounding by the page"),
        card("OBJECT", run.names ? run.names[state.target] : "target " + (state.target + 1)), card("TITLE", run.title), "END".padEnd(80)];
    const head = cards.join(""), start = Math.ceil(head.length / 2880) * 2880;
    const bytes = new ArrayBuffer(start + Math.ceil(4 * n * n / 2880) * 2880);
    new Uint8Array(bytes).set(new TextEncoder().encode(head.padEnd(start)));
    const view = new DataView(bytes);
    for (let i = 0; i < n * n; i++) view.setFloat32(start + 4 * i, 10 ** (p.low + packed[first + i] / 65535 * (p.high - p.low)));
    return bytes;
}

function save(content, name, type) {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([content], {type: type}));
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

// --- what is chosen

function options(id, words, key) {
    const select = element(id);
    words.forEach((word, i) => select.add(new Option(word, i)));
    select.value = state[key];
    select.addEventListener("change", () => { state[key] = +select.value; draw(); });
}

function nearest(x, y) {
    let best = 0;
    run.x.forEach((_, t) => {
        if (Math.hypot(run.x[t] - x, run.y[t] - y) < Math.hypot(run.x[best] - x, run.y[best] - y)) best = t;
    });
    return best;
}

function towards(dx, dy) {  // the nearest target in that direction, of those within 45 degrees of it, else the state's
    let best = state.target, least = Infinity;
    run.x.forEach((_, t) => {
        const x = run.x[t] - run.x[state.target], y = run.y[t] - run.y[state.target], along = x * dx + y * dy, across = Math.abs(x * dy - y * dx);
        if (along > 1e-9 && across <= along * (1 + 1e-9) && along + 2 * across < least) [best, least] = [t, along + 2 * across];
    });
    return best;
}

const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1]};
document.addEventListener("keydown", event => {  // arrows: targets; with Shift: exposures
    const arrow = ARROWS[event.key];
    if (!arrow || event.altKey || event.ctrlKey || event.metaKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
    if (event.shiftKey) {
        const last = element("exposure").options.length - 1;
        state.exposure = Math.min(last, Math.max(0, state.exposure + arrow[0] + arrow[1]));
        element("exposure").value = state.exposure;
    } else {
        state.target = towards(...arrow);
    }
    event.preventDefault();
    draw();
});

document.title = run.title;
element("title").textContent = run.title;
element("summary").textContent = run.summary;
options("quantity", run.quantities.map(q => q.label), "quantity");
options("wave", run.waves.map((_, il) => lambda(il)), "wave");
options("exposure", [0].concat(run.times.length === 1 ? [] : run.times.map((_, e) => e + 1)).map(exposureName), "exposure");
options("target", run.x.map((_, t) => targetName(t)), "target");
element("scale").addEventListener("change", () => { state.scale = element("scale").value; draw(); });
drawStars();
draw();
element("table").addEventListener("click", () => save(table(), run.file + ".csv", "text/csv"));
element("psf-fits").addEventListener("click", () => save(psfFits(), [run.file, "target" + (state.target + 1),
    run.bands[run.psf[state.image].wave] || run.waves[run.psf[state.image].wave] + "um", run.psf[state.image].exposure || "long"].join("-") + ".fits", "application/fits"));
element("map").on("plotly_click", event => {
    state.target = nearest(event.points[0].x, event.points[0].y);
    draw();
});
document.body.dataset.ready = "yes";
