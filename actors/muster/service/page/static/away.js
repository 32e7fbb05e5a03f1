// Shows when the service does not answer, keeps the page meanwhile, and shows when it is back.
"use strict";

(() => {
  const away = document.getElementById("away");
  const icon = document.querySelector("link[rel=icon]").href;
  const PATIENCE_MS = 5000;
  const RETRY_MS = 2000;
  let lost = null;
  let source = null;
  // The search since the page was opened that was not sent: it is sent when the service answers.
  const unanswered = new Set();
  let isLeft = false;
  addEventListener("pagehide", () => {
    isLeft = true;
  });
  addEventListener("pageshow", () => {
    isLeft = false;
  });

  const say = (more = "") => {
    away.hidden = lost === null;
    document.body.classList.toggle("is-away", lost !== null);
    const since = lost?.toISOString().slice(11, 19);
    const kept = document.body.dataset.live === undefined ? "This page stays" : "This page shows the last state that is known, and goes on when the service is back";
    away.textContent = lost === null ? "" : `The service has not answered since ${since} UTC.${more} ${kept}.`;
  };

  // A small file without access control; a proxy in front of a service that is away refuses it.
  const answers = async () => {
    try {
      return (await fetch(icon, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) })).ok;
    } catch {
      return false;
    }
  };

  const lose = (more = "") => {
    const isNew = lost === null;
    lost ??= new Date();
    if (isNew || more !== "") say(more);
    if (isNew) setTimeout(look, RETRY_MS);
  };

  const look = async () => {
    if (lost !== null && await answers()) find();
    if (lost !== null) setTimeout(look, RETRY_MS);
  };

  const find = () => {
    lost = null;
    say();
    for (const one of unanswered) htmx.trigger(one, "again");
    unanswered.clear();
    if (source?.readyState === EventSource.CLOSED) listen();
    document.dispatchEvent(new CustomEvent("muster:back"));
  };

  const listen = () => {
    source = new EventSource(document.body.dataset.live);
    source.addEventListener("decided", ({ data }) => {
      if (lost === null) document.dispatchEvent(new CustomEvent("muster:decided", { detail: data }));
      else find();
    });
    source.addEventListener("error", fails);
  };
  // The browser tries again if there was no answer. It does not if the answer was an error,
  // as when there are too many streams: then the page is fetched again from time to time.
  const fails = async () => {
    if (isLeft) return;
    if (source.readyState !== EventSource.CLOSED || !(await answers())) {
      lose();
    } else if (lost === null) {
      setTimeout(listen, PATIENCE_MS);
      document.dispatchEvent(new CustomEvent("muster:back"));
    }
  };
  if (document.body.dataset.live !== undefined) listen();

  // A reader who leaves for a page that does not come sees the error page of the browser.
  const isHere = () => lost === null && source?.readyState === EventSource.OPEN;
  const leaves = async (what, leave) => {
    if (isHere() || await answers()) {
      if (lost !== null) find();
      leave();
      return true;
    }
    lose(` ${what} was not opened.`);
    return false;
  };

  globalThis.muster = { leave: (url, what) => leaves(what, () => location.assign(url)) };

  // Whether a click leaves this page for another one of the service, in this window.
  const isPlain = (event, link, to) => {
    const hasKey = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    const isOwn = to.origin === location.origin && !link.hasAttribute("target") && !link.hasAttribute("download");
    const isInside = to.hash !== "" && to.pathname + to.search === location.pathname + location.search;
    return !event.defaultPrevented && event.button === 0 && !hasKey && isOwn && !isInside;
  };
  // Other scripts of the page come first: what they have prevented is no click on a link.
  addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (link === null || isHere()) return;
    const to = new URL(link.getAttribute("href"), location.href);
    if (isPlain(event, link, to)) {
      event.preventDefault();
      const text = link.textContent.trim();
      leaves(text === "" ? "This page" : `“${text}”`, () => location.assign(to));
    }
  });

  let passes = false;
  document.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (passes || isHere() || form.matches("[hx-get], [hx-post]")) return;
    event.preventDefault();
    event.stopPropagation();
    leaves("This", () => {
      passes = true;
      form.requestSubmit(submitter);
      passes = false;
    });
  }, true);

  // What htmx could not send, or what a proxy has answered for the service.
  const unsent = ({ detail }) => {
    if (detail.elt.matches(".searching")) unanswered.add(detail.elt);
    const button = detail.requestConfig?.triggeringEvent?.submitter ?? detail.elt;
    lose(button.matches("button") ? ` “${button.textContent.trim()}” was not sent.` : "");
  };
  document.addEventListener("htmx:sendError", unsent);
  document.addEventListener("htmx:timeout", unsent);
  document.addEventListener("htmx:beforeSwap", (event) => {
    if ([502, 504].includes(event.detail.xhr.status)) {
      event.preventDefault();
      lose();
    }
  });
})();
