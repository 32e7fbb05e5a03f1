// The heat map of nodes: describes the node below the pointer; arrow keys go from node to node.
"use strict";

(() => {
  const read = new WeakMap();

  // The nodes of a map; each name was written as what differs from the one before.
  const cellsOf = (map) => {
    const script = document.getElementById(map.dataset.cells);
    const text = script.textContent;
    let found = read.get(script);
    if (found?.text !== text) {
      const cells = JSON.parse(text);
      let before = "";
      cells.names = cells.names.map((rest, at) => (before = before.slice(0, cells.shared[at]) + rest));
      cells.closed = new Set(cells.unschedulable);
      cells.legend = [...document.querySelectorAll(".legend thead th")].slice(1).map((one) => one.textContent.trim());
      found = { text, cells };
      read.set(script, found);
    }
    return found.cells;
  };

  const description = (cells, at) => {
    const count = cells.counts[at];
    const words = [`${cells.names[at]}: ${cells.shares[at]} % used`, `${count} allocation${count === 1 ? "" : "s"}`];
    if (document.querySelector(".heat .k0, .heat [class^=k]") !== null) {
      words.push(cells.legend[parseInt(cells.bands[at], 16)]);
    }
    return (cells.closed.has(at) ? [...words, "unschedulable"] : words).join(", ");
  };

  const addressOf = (map, name) => `/nodes/${encodeURIComponent(name)}${map.dataset.query}`;

  // The link on one node of a map; arrow keys move it.
  const place = (map, at) => {
    const cells = cellsOf(map);
    const here = map.querySelector(".here");
    const mark = here.firstElementChild;
    mark.setAttribute("x", (at % cells.columns) - 0.3);
    mark.setAttribute("y", Math.floor(at / cells.columns) - 0.3);
    here.setAttribute("href", addressOf(map, cells.names[at]));
    here.setAttribute("aria-label", description(cells, at));
    here.dataset.at = at;
    here.dataset.name = cells.names[at];
  };

  const tip = () => document.getElementById("tip");

  const hide = () => {
    const shown = tip();
    if (shown !== null) {
      shown.hidden = true;
    }
  };

  const show = (map, at) => {
    const cells = cellsOf(map);
    const size = map.getBoundingClientRect();
    const side = size.width / cells.columns;
    const shown = tip();
    shown.textContent = description(cells, at);
    shown.hidden = false;
    const left = size.left + (at % cells.columns) * side;
    const top = size.top + (Math.floor(at / cells.columns) + 1) * side + 6;
    shown.style.left = `${Math.max(4, Math.min(left, innerWidth - shown.offsetWidth - 4))}px`;
    shown.style.top = `${Math.max(4, Math.min(top, innerHeight - shown.offsetHeight - 4))}px`;
  };

  // The place of the node below the pointer, or null.
  const below = (map, event) => {
    const cells = cellsOf(map);
    const size = map.getBoundingClientRect();
    const side = size.width / cells.columns;
    const column = Math.floor((event.clientX - size.left) / side);
    const at = Math.floor((event.clientY - size.top) / side) * cells.columns + column;
    return column >= 0 && column < cells.columns && at >= 0 && at < cells.names.length ? at : null;
  };

  const mapOf = (event) => (event.target instanceof Element ? event.target.closest("svg.heat") : null);

  const STEPS = { ArrowRight: () => 1, ArrowLeft: () => -1, ArrowDown: (columns) => columns, ArrowUp: (columns) => -columns };

  const nextOf = (key, at, cells) => {
    const last = cells.names.length - 1;
    if (key === "Home" || key === "End") {
      return key === "Home" ? 0 : last;
    }
    const next = at + (STEPS[key]?.(cells.columns) ?? NaN);
    return next >= 0 && next <= last ? next : null;
  };

  document.addEventListener("pointermove", (event) => {
    const map = mapOf(event);
    const at = map === null ? null : below(map, event);
    if (at !== null) {
      show(map, at);
    } else if (document.activeElement?.closest(".heat") == null) {
      hide();
    }
  });

  // A finger is too large for a node: it shows which one it has touched, and touches that again.
  document.addEventListener("click", (event) => {
    const map = mapOf(event);
    if (map === null || event.detail === 0) {
      return;
    }
    const at = below(map, event);
    const here = map.querySelector(".here");
    const isAgain = Number(here.dataset.at) === at && document.activeElement === here;
    if (at !== null && (event.pointerType !== "touch" || isAgain)) {
      place(map, at);
      if (event.target.closest(".here") === null) {
        muster.leave(here.getAttribute("href"), "The node");
      }
      return;
    }
    event.preventDefault();
    if (at !== null) {
      place(map, at);
      here.focus();
      show(map, at);
    }
  });

  document.addEventListener("keydown", (event) => {
    const here = event.target instanceof Element ? event.target.closest(".here") : null;
    if (event.key === "Escape") {
      hide();
    }
    if (here === null || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) {
      return;
    }
    const map = here.closest("svg.heat");
    const cells = cellsOf(map);
    if (event.key in STEPS || event.key === "Home" || event.key === "End") {
      event.preventDefault();
      const next = nextOf(event.key, Number(here.dataset.at), cells);
      if (next !== null) {
        place(map, next);
        show(map, next);
      }
    }
  });

  document.addEventListener("focusin", (event) => {
    const here = event.target.closest(".here");
    if (here !== null && here.matches(":focus-visible")) {
      show(here.closest("svg.heat"), Number(here.dataset.at));
    }
  });
  document.addEventListener("focusout", (event) => event.target.closest(".here") !== null && hide());
  document.addEventListener("scroll", hide, { passive: true });

  // After each change the link stands on the same node, if that is still there.
  const settle = () => {
    for (const map of document.querySelectorAll("svg.heat")) {
      const at = cellsOf(map).names.indexOf(map.querySelector(".here").dataset.name);
      place(map, Math.max(at, 0));
    }
  };
  document.addEventListener("htmx:afterSwap", settle);
  settle();
})();
