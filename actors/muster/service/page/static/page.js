// Keeps an open page up to date, and says when the service is away.
"use strict";

(() => {
  const main = document.getElementById("main");
  const away = document.getElementById("away");
  let lost = null;
  let wanted = false;

  // Whoever writes into a form of the content is not disturbed.
  const isBusy = () => {
    const at = document.activeElement;
    return document.hidden || (at !== null && main.contains(at) && at.matches("input, textarea, select") && at.value !== at.defaultValue);
  };

  const refresh = () => {
    if (isBusy()) {
      wanted = true;
    } else {
      wanted = false;
      htmx.trigger(main, "refresh");
    }
  };

  const tell = () => {
    away.hidden = lost === null;
    away.textContent = lost === null ? "" : `The service does not answer since ${lost.toLocaleTimeString()}: this is the state of then.`;
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
    const again = () => wanted && refresh();
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
