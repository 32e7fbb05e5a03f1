// Ages count on while nothing else changes, without asking the service; see rendering.py.
"use strict";

(() => {
  // Of a moment in the past nothing gets older.
  if (document.body.dataset.now === undefined) {
    return;
  }
  const ahead = Number(document.body.dataset.now) - Date.now();
  const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

  // The two largest units, as the service writes durations.
  const duration = (seconds) => {
    for (const [unit, name, part, ofPart] of seconds < 60 ? [] : UNITS) {
      const rounded = Math.floor((seconds + Math.floor(part / 2)) / part) * part;
      if (rounded >= unit) {
        const rest = Math.floor((rounded % unit) / part);
        const whole = `${Math.floor(rounded / unit).toLocaleString("en-US")} ${name}`;
        return rest > 0 ? `${whole} ${rest} ${ofPart}` : whole;
      }
    }
    return `${seconds} s`;
  };

  const lasting = (seconds) => (seconds < 1 ? "less than 1 s" : duration(Math.floor(seconds)));

  const FORMS = {
    ago: (seconds) => (seconds <= -1 ? `in ${lasting(-seconds)}` : seconds < 1 ? "just now" : `${lasting(seconds)} ago`),
    for: lasting,
    left: (seconds) => lasting(-seconds),
  };

  const tick = () => {
    if (document.hidden) {
      return;
    }
    const now = Date.now() + ahead;
    const chosen = getSelection();
    for (const one of document.querySelectorAll("[data-at][data-form]")) {
      const text = FORMS[one.dataset.form]((now - Number(one.dataset.at)) / 1000);
      // A selected age may be about to be copied, so it stays as it is.
      if (one.textContent !== text && (chosen.isCollapsed || !chosen.containsNode(one, true))) {
        one.textContent = text;
      }
    }
  };

  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
})();
