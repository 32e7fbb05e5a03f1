// Keeps an open page up to date, and says when the service is away.
"use strict";

(() => {
  const main = document.getElementById("main");
  const away = document.getElementById("away");
  let lost = null;
  let wanted = false;
  let searching = false;

  // What its reader has opened stays open, what was loaded into an element with `data-kept` stays
  // there while this attribute has the same value, and what is being typed stays as it is.
  Idiomorph.defaults.ignoreActiveValue = true;
  Object.assign(Idiomorph.defaults.callbacks, {
    beforeAttributeUpdated: (name, node) => name !== "open" || !node.matches("details"),
    beforeNodeMorphed: (old, fresh) => !(old instanceof Element && old.hasAttribute("data-kept") && old.dataset.kept === fresh.dataset?.kept),
  });

  // A search changes the address of the page, and that is what is fetched again.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.target === main) {
      event.detail.path = location.pathname + location.search;
    }
  });
  const isSearch = (event) => event.target instanceof Element && event.target.closest("[role=search]") !== null;
  document.addEventListener("input", (event) => {
    searching = searching || isSearch(event);
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (isSearch(event)) {
      searching = false;
      again();
    }
  });

  // Whoever writes into a form of the content is not disturbed.
  const isBusy = () => {
    const at = document.activeElement;
    const writes = at !== null && main.contains(at) && at.matches("input, textarea, select") && at.closest("[role=search]") === null;
    // A page whose content stays as it is has a part that is fetched again; see config.html.
    return document.hidden || searching || (writes && main.hasAttribute("hx-get") && at.value !== at.defaultValue);
  };

  const refresh = () => {
    if (isBusy()) {
      wanted = true;
    } else {
      wanted = false;
      htmx.trigger(main, "refresh");
    }
  };

  const again = () => wanted && refresh();

  const tell = () => {
    away.hidden = lost === null;
    away.textContent = lost === null ? "" : `The service does not answer. You see its state of ${lost.toISOString().slice(11, 19)} UTC; the page goes on when the service is back.`;
    document.body.classList.toggle("is-away", lost !== null);
  };

  const address = document.body.dataset.live;
  if (address !== undefined) {
    const source = new EventSource(address);
    let first = true;
    source.addEventListener("decided", () => {
      if (lost !== null) {
        lost = null;
        tell();
        refresh();
      } else if (!first) {
        refresh();
      }
      first = false;
    });
    source.addEventListener("error", () => {
      lost = lost ?? new Date();
      tell();
    });
    document.addEventListener("visibilitychange", again);
    document.addEventListener("focusout", () => setTimeout(again));
  }

  // A session that has ended: the page that asks for the token.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status === 401) {
      event.preventDefault();
      location.reload();
    }
  });
})();
