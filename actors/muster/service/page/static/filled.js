// Form fields keep what was filled in when the page is loaded again: see PAGE-70.
"use strict";

(() => {
  const KEY = "muster-filled";
  // Fields with `data-filled`: those that are typed into, and hidden ones that belong to them.
  const fields = () => [...document.querySelectorAll("[data-filled][id]")];

  let isLeft = false;
  const reload = () => {
    // Several answers may say that the session has ended.
    if (isLeft) return;
    isLeft = true;
    const kept = {};
    if (fields().some((one) => one.value !== one.defaultValue)) {
      for (const one of fields()) {
        kept[one.id] = one.value;
        // Nothing gets lost, so there is no question; see config.js.
        one.defaultValue = one.value;
      }
    }
    try {
      sessionStorage.setItem(KEY, JSON.stringify({ path: location.pathname, kept }));
    } catch {
      // A browser that keeps nothing: then it has to be written again.
    }
    location.reload();
  };

  // Fields that were filled in before this script listened, or that the browser has restored.
  const noteFilled = () => {
    for (const one of fields()) {
      if (one.value !== one.defaultValue) one.dispatchEvent(new Event("input", { bubbles: true }));
    }
  };

  const fill = () => {
    try {
      const { path, kept } = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
      // The login leads back to this page.
      if (path !== location.pathname) return;
      sessionStorage.removeItem(KEY);
      const filled = fields().filter((one) => one.id in kept);
      for (const one of filled) one.value = kept[one.id];
    } catch {
      // Likewise.
    } finally {
      noteFilled();
    }
  };

  // htmx listens from then on.
  document.addEventListener("DOMContentLoaded", () => setTimeout(fill));
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-reload]") !== null) reload();
  });

  // A session that has ended: the page that asks for the token.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status === 401) {
      event.preventDefault();
      reload();
    }
  });
})();
