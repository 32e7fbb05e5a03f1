// Draws values over time with uPlot: they can be pointed at, and zoomed by dragging, all at once.
// Without a script, and on paper, the drawings of the server stand there instead.
"use strict";

(() => {
  const HEIGHT = 190;
  const charts = new Map();
  // The drawing below the pointer: the others show the same instant, and say nothing.
  let pointed = null;
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // Screen readers have the table.
  document.body.append(tip);
  document.documentElement.classList.add("draws");

  const two = (value) => String(value).padStart(2, "0");
  const day = (seconds) => new Date(seconds * 1e3).toISOString().slice(0, 10);
  const clock = (seconds) => {
    const at = new Date(seconds * 1e3);
    return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  };
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
  // Beside an axis there is room for few digits: 300 k, 1.2 M.
  const UNITS = [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]];
  const short = (value) => {
    const unit = UNITS.find(([from]) => Math.abs(value) >= from);
    return unit === undefined ? number(value) : `${number(value / unit[1])} ${unit[2]}`;
  };

  // The colour of a class, as the sheet has it: lighter in the dark.
  const colour = (style, where) => {
    const probe = document.createElement("i");
    probe.className = style;
    where.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faded = (rgb) => rgb.replace("rgb(", "rgba(").replace(")", ", .8)");

  // Areas stand on one another: the highest is drawn first, and the next covers its lower part.
  const shapes = (plot) => {
    let floor = [];
    const areas = plot.areas.map((row) => {
      floor = row.values.map((value, place) => value === null ? null : value + (floor[place] ?? 0));
      return { ...row, drawn: floor, isArea: true };
    });
    return [...areas.reverse(), ...plot.lines.map((row) => ({ ...row, drawn: row.values, isArea: false }))];
  };
  const columns = (plot) => {
    const times = plot.lines.concat(plot.areas)[0].values.map((_, place) => plot.begin + place * plot.step);
    // The last step is drawn to its end.
    return [[...times, plot.end], ...shapes(plot).map((row) => [...row.drawn, row.drawn.at(-1)])];
  };

  const tell = (chart, plot) => {
    if (chart.cursor.left < 0 || !pointed?.contains(chart.root)) {
      return;
    }
    tip.textContent = "";
    const heading = document.createElement("b");
    const values = plot.lines.concat(plot.areas)[0].values;
    const pointedAt = Math.floor((chart.posToVal(chart.cursor.left, "x") - plot.begin) / plot.step);
    const place = Math.max(0, Math.min(pointedAt, values.length - 1));
    const begin = plot.begin + place * plot.step;
    heading.textContent = `${day(begin)} ${clock(begin)} – ${clock(Math.min(begin + plot.step, plot.end))} UTC`;
    tip.append(heading);
    for (const row of plot.lines.concat(plot.areas)) {
      const value = row.values[place];
      const line = document.createElement("div");
      const mark = document.createElement("i");
      mark.className = row.style;
      const figure = document.createElement("span");
      figure.textContent = value === null ? "–" : `${number(value)} ${plot.unit}`;
      line.append(mark, row.name, figure);
      tip.append(line);
    }
    tip.hidden = false;
    const over = chart.over.getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    const left = over.left + chart.cursor.left + 16;
    tip.style.left = `${Math.max(4, left + box.width > innerWidth ? left - box.width - 32 : left)}px`;
    tip.style.top = `${Math.max(4, Math.min(over.top + chart.cursor.top + 14, innerHeight - box.height - 6))}px`;
  };

  const options = (drawing, plot) => {
    const axis = { stroke: variable("--soft"), font: "12px system-ui, 'DejaVu Sans', sans-serif", grid: { stroke: variable("--hair"), width: 1 }, ticks: { stroke: variable("--faint"), width: 1 } };
    const step = uPlot.paths.stepped({ align: 1 });
    return {
      width: drawing.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      legend: { show: false },
      cursor: { sync: { key: "time" }, drag: { x: true, y: false }, points: { show: false }, y: false },
      scales: { x: { time: true, range: (_, low, high) => [low, high] }, y: { range: () => [0, charts.get(drawing).plot.high] } },
      axes: [
        { ...axis, space: 64, values: [[86400, "{MMM} {D}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", "\n{MMM} {D}", null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
        { ...axis, size: 56, values: (_, ticks) => ticks.map(short) },
      ],
      series: [{}, ...shapes(plot).map((row) => {
        const stroke = colour(row.style, drawing);
        return { label: row.name, paths: step, points: { show: false }, stroke: row.isArea ? "transparent" : stroke, width: row.isArea ? 0 : 2, fill: row.isArea ? faded(stroke) : undefined };
      })],
      hooks: { setCursor: [(chart) => tell(chart, charts.get(drawing).plot)] },
    };
  };

  const isZoomed = (chart) => {
    const [times] = chart.data;
    return chart.scales.x.min > times[0] || chart.scales.x.max < times.at(-1);
  };

  const draw = (drawing) => {
    const text = drawing.dataset.plot;
    const known = charts.get(drawing);
    if (known?.text === text) {
      return;
    }
    const plot = JSON.parse(text);
    const shape = JSON.stringify([plot.step, plot.end - plot.begin, plot.lines.map((row) => row.name), plot.areas.map((row) => row.name)]);
    if (known !== undefined && known.shape === shape) {
      const zoomed = isZoomed(known.chart);
      Object.assign(known, { text, plot });
      known.chart.setData(columns(plot), !zoomed);
      if (zoomed) {
        known.chart.redraw();
      }
      return;
    }
    known?.chart.destroy();
    const entry = { text, plot, shape, chart: null };
    charts.set(drawing, entry);
    entry.chart = new uPlot(options(drawing, plot), columns(plot), drawing.querySelector(".drawn"));
    sizes.observe(drawing);
  };

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = charts.get(target)?.chart;
      if (chart && chart.width !== target.clientWidth && target.clientWidth > 0) {
        chart.setSize({ width: target.clientWidth, height: HEIGHT });
      }
    }
  });

  const drawAll = () => {
    for (const [drawing, { chart }] of charts) {
      if (!drawing.isConnected) {
        sizes.unobserve(drawing);
        chart.destroy();
        charts.delete(drawing);
      }
    }
    document.querySelectorAll(".drawing[data-plot]").forEach(draw);
  };

  const hide = () => {
    tip.hidden = true;
  };
  document.addEventListener("pointermove", (event) => {
    pointed = event.target instanceof Element ? event.target.closest(".drawn") : null;
    if (pointed === null) {
      hide();
    }
  }, { capture: true, passive: true });
  addEventListener("scroll", hide, { passive: true });
  document.addEventListener("htmx:afterSettle", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const entry of charts.values()) {
      entry.shape = "";
      entry.text = "";
    }
    drawAll();
  });
  drawAll();
})();
