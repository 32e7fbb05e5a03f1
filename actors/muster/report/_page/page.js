"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const WIDE = 10000, S = 1e6, MIN = 60 * S, H = 60 * MIN, D = 24 * H;
  const STEPS = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5];
  for (const s of [1, 2, 5, 10, 15, 30]) STEPS.push(s * S);
  for (const m of [1, 2, 5, 10, 15, 30]) STEPS.push(m * MIN);
  for (const h of [1, 2, 3, 6, 12]) STEPS.push(h * H);
  for (let p = 1; p < 1e7; p *= 10) STEPS.push(p * D, 2 * p * D, 5 * p * D);
  const all = (where, root = document) => [...root.querySelectorAll(where)];
  const charts = all(".chart");
  const whole = [data.begin, data.end];
  let [from, to] = whole;

  // Times, as on the axes.
  const two = (value) => String(value).padStart(2, "0");
  const origin = data.origin;
  const date = (at, step) => {
    const text = new Date(Math.floor(at / 1e3)).toISOString();
    if (step >= D) return text.slice(0, 10);
    const digits = step >= S ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : 3;
    return text.slice(0, 10) + " " + text.slice(11, step >= MIN ? 16 : digits ? 20 + digits : 19);
  };
  const instant = (at, step) => {
    if (origin !== null) return date(origin + at, step);
    const days = Math.floor(at / D), day = days ? days + " d " : "";
    if (step >= D) return days + " d";
    const hours = Math.floor(at % D / H), minutes = Math.floor(at % H / MIN);
    if (step >= H) return day + hours + " h";
    const clock = hours + ":" + two(minutes);
    if (step >= MIN) return days || hours ? day + clock + " h" : minutes + " min";
    const digits = step >= S ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : 3;
    const seconds = (at % MIN / S).toFixed(digits);
    const padded = seconds.padStart(2 + (digits ? digits + 1 : 0), "0");
    if (days || hours) return day + clock + ":" + padded;
    return minutes ? minutes + ":" + padded + " min" : seconds + " s";
  };
  const span = (us) => {
    for (const [unit, name, part, small] of [[D, "d", H, "h"], [H, "h", MIN, "min"], [MIN, "min", S, "s"]]) {
      const rounded = Math.round(us / part) * part;
      if (rounded >= unit) {
        const rest = Math.round(rounded % unit / part);
        return Math.floor(rounded / unit) + " " + name + (rest ? " " + rest + " " + small : "");
      }
    }
    return us >= S ? +(us / S).toPrecision(3) + " s" : us >= 1e3 ? +(us / 1e3).toPrecision(3) + " ms" : us + " µs";
  };
  const number = (value) => {
    if (typeof value !== "number") return value;
    const size = Math.abs(value);
    const text = size && size < 0.01 ? value.toPrecision(2) : value.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 0 : 2 });
    return text.replace("-", "−");
  };

  // What fills the bars of reservations looks the same however wide the drawing is, and however far one zooms in.
  const hatch = document.getElementById("hatch");
  const keepHatch = () => {
    if (!hatch) return;
    const svg = hatch.ownerSVGElement, box = svg.viewBox.baseVal, there = svg.getBoundingClientRect();
    hatch.setAttribute("patternTransform", `scale(${box.width / there.width} ${box.height / there.height})`);
  };
  addEventListener("resize", keepHatch);
  keepHatch();

  // Zoom: every drawing shows the same time.
  const show = (begin, end) => {
    const least = Math.max(data.width / 50, 2);
    if (end - begin < least) { const middle = (begin + end) / 2; begin = middle - least / 2; end = middle + least / 2; }
    from = Math.max(begin, whole[0]);
    to = Math.min(end, whole[1]);
    const scale = WIDE / (whole[1] - whole[0]);
    const step = STEPS.find((s) => to - from <= s * 12) || STEPS[STEPS.length - 1];
    for (const chart of charts) {
      const svg = chart.querySelector("svg"), box = svg.viewBox.baseVal;
      svg.setAttribute("viewBox", [(from - whole[0]) * scale, box.y, (to - from) * scale, box.height].join(" "));
      const axis = chart.querySelector(".xs");
      axis.textContent = "";
      axis.classList.remove("long");
      let place = 0;
      const zero = origin === null ? 0 : origin;
      for (let at = Math.ceil((from + zero) / step) * step - zero; at <= to; at += step, place++) {
        const mark = document.createElement("span");
        mark.textContent = instant(at, step);
        if (mark.textContent.length > 6) axis.classList.add("long");
        mark.className = place % 4 === 0 ? "" : place % 2 === 0 ? "t2" : "t1";
        mark.style.left = (at - from) / (to - from) * 100 + "%";
        axis.append(mark);
      }
    }
    keepHatch();
    document.getElementById("reset").hidden = from === whole[0] && to === whole[1];
  };

  // What is said about the instant that is pointed at.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const cursors = charts.map((chart) => {
    const line = document.createElement("div");
    line.className = "cursor";
    line.hidden = true;
    chart.querySelector(".plot").append(line);
    return line;
  });
  const valueAt = (runs, bucket) => {
    for (let place = 0; place < runs.length; place += 2) {
      if (bucket < runs[place + 1]) return runs[place];
      bucket -= runs[place + 1];
    }
    return null;
  };
  const line = (style, name, text) => {
    const row = document.createElement("div");
    if (style) { const mark = document.createElement("i"); mark.className = style; row.append(mark); }
    row.append(name);
    const value = document.createElement("span");
    value.textContent = text;
    row.append(value);
    tip.append(row);
  };
  const heading = (text) => { const bold = document.createElement("b"); bold.textContent = text; tip.append(bold); };
  const tellInstant = (chart, at) => {
    const told = data.charts[chart.dataset.chart];
    heading(instant(at, (to - from) / 400 >= MIN ? MIN : (to - from) / 400 >= S ? S : 1e4));
    for (const row of told ? told.r : []) {
      const value = valueAt(row.v, Math.floor((at - whole[0]) / data.width));
      if (value !== null && (value !== 0 || told.r.length < 5)) line(row.c, row.n, number(value) + (told.u && typeof value === "number" ? " " + told.u : ""));
    }
  };
  const tellBar = (bar) => {
    const [ask, node, queue, gang, held, bound, end, reason, devices, start] = data.bars[bar.dataset.i];
    heading(ask);
    line("", "node", node);
    line("", "queue", queue);
    if (gang) line("", "gang", gang);
    if (devices) line("", "devices", devices);
    const began = bound === null ? held : bound, fine = whole[1] - whole[0] >= H ? MIN : S;
    if (start !== undefined) {
      line("", "reserved at", instant(held, fine));
      line("", "from", start === null ? "an end that is not known" : instant(start, fine));
      line("", end === null ? "has lasted" : "lasted", span((end === null ? whole[1] : end) - held));
      return;
    }
    if (bound !== null) line("", "bound at", instant(bound, fine));
    if (bound === null || held < bound) line("", "waited there", span((bound === null ? whole[1] : bound) - held));
    line("", end === null ? "has run" : "ran", span((end === null ? whole[1] : end) - began));
    line("", "ended", end === null ? "not yet" : reason.replace("_", " "));
  };
  const place = (event) => {
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 16 : event.clientX + 16;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 6)) + "px";
  };
  let hot = [];
  const heat = (bars) => {
    for (const bar of hot) bar.classList.remove("hot");
    hot = bars;
    for (const bar of hot) bar.classList.add("hot");
  };
  const bars = all(".bar");
  const mates = (bar) => {
    const gang = data.bars[bar.dataset.i][3];
    return bars.filter((other) => other.dataset.i === bar.dataset.i || (gang && data.bars[other.dataset.i][3] === gang));
  };
  const hide = () => { tip.hidden = true; heat([]); for (const cursor of cursors) cursor.hidden = true; };

  for (const chart of charts) {
    const plot = chart.querySelector(".plot");
    let start = null, chosen = null;
    const share = (event) => {
      const box = plot.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    };
    plot.addEventListener("pointerdown", (event) => { if (event.button === 0) start = share(event); });
    plot.addEventListener("pointermove", (event) => {
      const now = share(event), at = from + now * (to - from);
      for (const cursor of cursors) { cursor.hidden = false; cursor.style.left = now * 100 + "%"; }
      if (start !== null && Math.abs(now - start) > 0.01) {
        if (!chosen) { chosen = document.createElement("div"); chosen.className = "chosen"; plot.append(chosen); plot.setPointerCapture(event.pointerId); }
        chosen.style.left = Math.min(start, now) * 100 + "%";
        chosen.style.width = Math.abs(now - start) * 100 + "%";
      }
      tip.textContent = "";
      const bar = event.target.closest(".bar");
      if (bar && !chosen) { heat(mates(bar)); tellBar(bar); } else { heat([]); tellInstant(chart, at); }
      place(event);
    });
    const end = (event) => {
      if (chosen) {
        const now = share(event), [low, high] = [Math.min(start, now), Math.max(start, now)], wide = to - from;
        chosen.remove();
        chosen = null;
        if (event.type === "pointerup") { show(from + low * wide, from + high * wide); hide(); }
      }
      start = null;
    };
    plot.addEventListener("pointerup", end);
    plot.addEventListener("pointercancel", end);
    plot.addEventListener("pointerleave", () => { if (!chosen) { start = null; hide(); } });
    plot.addEventListener("dblclick", () => show(...whole));
  }
  addEventListener("scroll", hide, { passive: true });
  document.getElementById("reset").addEventListener("click", () => show(...whole));

  // Filter by name.
  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const row of all("[data-name]")) row.classList.toggle("gone", !row.dataset.name.toLowerCase().includes(wanted));
    for (const bar of bars) {
      const known = data.bars[bar.dataset.i];
      bar.classList.toggle("dim", !known.slice(0, 4).some((text) => text && text.toLowerCase().includes(wanted)));
    }
  });
  document.querySelector(".tools").hidden = false;
})();
