// Keeps an open page up to date; see away.js for a service that does not answer.
"use strict";

(() => {
  const main = document.getElementById("main");
  const PAUSE = "X-Muster-Pause";
  let wanted = false;
  let asks = false;
  let restsUntil = 0;
  let timer;
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

  // A form of the content in which the reader writes is not disturbed.
  const isBusy = () => {
    const at = document.activeElement;
    const writes = at !== null && main.contains(at) && at.matches("input, textarea, select") && at.closest("[role=search]") === null;
    // A page whose content stays as it is has a part that is fetched again; see config.html.
    return document.hidden || searching || (writes && main.hasAttribute("hx-get") && at.value !== at.defaultValue);
  };

  // PAGE-67: how long a page rests until it is fetched again depends on what it costs.
  const refresh = () => {
    const rest = restsUntil - performance.now();
    if (isBusy() || asks) {
      wanted = true;
    } else if (rest > 0) {
      wanted = true;
      timer ??= setTimeout(() => {
        timer = undefined;
        again();
      }, rest);
    } else {
      wanted = false;
      htmx.trigger(main, "refresh");
    }
  };

  const again = () => wanted && refresh();

  document.addEventListener("htmx:beforeRequest", (event) => {
    asks = asks || event.target === main;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.target === main) {
      asks = false;
      restsUntil = performance.now() + Number(event.detail.xhr.getResponseHeader(PAUSE) ?? 0);
      again();
    }
  });

  if (document.body.dataset.live !== undefined) {
    let isFirst = true;
    document.addEventListener("muster:decided", (event) => {
      // The first one says how far the service was when the page began to listen.
      if (!isFirst || event.detail !== document.body.dataset.batch) refresh();
      isFirst = false;
    });
    document.addEventListener("muster:back", refresh);
    document.addEventListener("visibilitychange", again);
    document.addEventListener("focusout", () => setTimeout(again));
  }

  // What fetches itself again rests as well while the page is not in view.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.matches("[data-renews]")) {
      event.preventDefault();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      document.querySelectorAll("[data-renews]").forEach((one) => htmx.trigger(one, "again"));
    }
  });

  // The result of a button stays until its reader closes it, or does the next thing.
  const answer = document.getElementById("answer");
  const notice = document.getElementById("told");
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target === answer) {
      notice.replaceChildren();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-close]") !== null) {
      answer.replaceChildren();
      main.focus({ preventScroll: true });
    }
  });

  // If a change removes the focused element, the focus does not go back to the top of the page.
  let had = false;
  document.addEventListener("htmx:beforeSwap", (event) => {
    had = event.detail.target.contains(document.activeElement);
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (!had || (document.activeElement !== null && document.activeElement !== document.body)) {
      return;
    }
    let place = event.target;
    if (event.detail.target === main) {
      place = answer.childElementCount > 0 ? answer : main;
    }
    place.tabIndex = -1;
    place.focus({ preventScroll: true });
  });
})();
