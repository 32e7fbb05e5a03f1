// The slider over the kept history: a page of another moment is another address.
"use strict";

(() => {
  const section = document.getElementById("time");
  if (section === null) return;
  const form = document.getElementById("time-form");
  const slide = document.getElementById("time-slide");
  const output = document.getElementById("time-told");
  const going = document.getElementById("time-going");
  const fold = section.querySelector(".time-fold");
  const FOCUS = "muster-time-focus";
  // A key that is held goes through many moments; only the last one is fetched.
  const PAUSE_MS = 600;
  const SLOW_MS = 800;
  let timer;

  // In the present the right end, and the moment beside it, go on with the time.
  const when = form.elements.namedItem("when");
  const began = performance.now();
  const last = Number(slide.max);
  // The browser writes a whole minute without its seconds, so it is asked for what it has written.
  let written = when.value;
  const goOn = () => {
    const isTouched = when.value !== written || document.activeElement === when;
    if (!isNow() || isTouched) return;
    slide.max = last + (performance.now() - began) / 1000;
    slide.value = slide.max;
    const date = new Date(Number(slide.dataset.originMs) + Number(slide.max) * 1000);
    when.value = date.toISOString().slice(0, 19);
    written = when.value;
  };
  if (document.body.dataset.live !== undefined) setInterval(goOn, 1000);

  const isNow = () => Number(slide.value) >= Number(slide.max) - (slide.max - slide.min) * 1e-4;

  const text = () => {
    if (isNow()) return "now";
    const date = new Date(Number(slide.dataset.originMs) + Number(slide.value) * 1000);
    return date.toISOString().slice(0, 19).replace("T", " ");
  };

  const tell = () => {
    output.textContent = text();
    slide.setAttribute("aria-valuetext", isNow() ? "now" : `${text()} UTC`);
  };

  const remember = (control) => {
    try {
      sessionStorage.setItem(FOCUS, control.id || `[name="${control.name}"][value="${control.value}"]`);
    } catch {
      // Without it only the focus is lost.
    }
  };

  // The state of then is made again from what is kept, which may take a while.
  const wait = () => setTimeout(look, SLOW_MS);
  const look = async () => {
    let share = "";
    try {
      const response = await fetch("/time/made");
      share = response.ok ? await response.text() : "";
    } catch {
      // The page is being left.
    }
    going.textContent = `The state at that time is made again from what is kept${share === "" ? "" : `: ${share} %`} …`;
    going.hidden = false;
    setTimeout(look, SLOW_MS);
  };

  const go = async () => {
    remember(slide);
    const back = form.elements.namedItem("back").value;
    const query = new URLSearchParams({ by: "slide", slide: Number(slide.value).toFixed(6), back });
    if (await muster.leave(isNow() ? back : `/time/go?${query}`, "This moment")) wait();
  };

  slide.addEventListener("input", () => {
    clearTimeout(timer);
    tell();
  });
  slide.addEventListener("change", () => {
    clearTimeout(timer);
    timer = setTimeout(go, PAUSE_MS);
  });
  form.addEventListener("submit", (event) => {
    clearTimeout(timer);
    if (event.submitter) remember(event.submitter);
    wait();
  });
  // A page that comes back from the cache of the browser waits for nothing.
  addEventListener("pageshow", (event) => event.persisted && location.reload());

  try {
    const last = sessionStorage.getItem(FOCUS);
    sessionStorage.removeItem(FOCUS);
    const used = last === null ? null : (document.getElementById(last) ?? form.querySelector(last));
    if (form.contains(used)) fold.open = true;
    used?.focus();
  } catch {
    // Likewise.
  }
})();
