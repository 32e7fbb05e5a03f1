// The editor of the configuration: numbers of lines, marks at problems, and when it may be applied.
"use strict";

(() => {
  const text = document.getElementById("config-text");
  const lines = document.getElementById("config-lines");
  const apply = document.getElementById("config-apply");
  const checked = document.getElementById("config-checked");
  const seen = document.getElementById("config-seen");
  const state = document.getElementById("config-state");
  let leaves = false;

  const number = () => {
    const count = text.value.split("\n").length;
    while (lines.children.length > count) {
      lines.lastChild.remove();
    }
    while (lines.children.length < count) {
      const one = document.createElement("b");
      one.textContent = lines.children.length + 1;
      lines.append(one);
    }
  };

  const follow = () => {
    lines.scrollTop = text.scrollTop;
  };

  const mark = () => {
    for (const one of lines.querySelectorAll(".wrong")) {
      one.classList.remove("wrong");
    }
    const verdict = checked.querySelector("[data-verdict]");
    text.setAttribute("aria-invalid", String(verdict?.dataset.verdict === "refused"));
    if (verdict?.dataset.verdict === "refused") {
      for (const one of checked.querySelectorAll(".line")) {
        lines.children[one.dataset.line - 1]?.classList.add("wrong");
      }
    }
    if (apply !== null) {
      apply.disabled = verdict?.dataset.verdict !== "new";
    }
  };

  const height = parseFloat(getComputedStyle(text).lineHeight);
  const go = (line) => {
    const begin = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = text.value.indexOf("\n", begin);
    text.focus();
    text.setSelectionRange(begin, end === -1 ? text.value.length : end);
    text.scrollTop = Math.max(0, (line - 4) * height);
  };

  // The address names a part of it: its lines are marked, and the cursor is before them.
  const open = () => {
    const first = Number(text.dataset.first);
    for (const one of [...lines.children].slice(first - 1, Number(text.dataset.last))) {
      one.classList.add("here");
    }
    go(first);
    text.setSelectionRange(text.selectionStart, text.selectionStart);
  };

  number();
  if (text.dataset.first !== undefined) {
    open();
  }
  follow();
  text.addEventListener("scroll", follow);
  if (checked === null) {
    return;
  }

  text.addEventListener("input", () => {
    number();
    // What was checked is another text.
    if (apply !== null) {
      apply.disabled = true;
    }
  });
  // Tab indents; Escape before it leaves the editor, for those who have no mouse.
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      leaves = true;
    } else if (event.key === "Tab" && !event.shiftKey && !leaves) {
      event.preventDefault();
      document.execCommand("insertText", false, "  ");
    } else if (!["Shift", "Tab"].includes(event.key)) {
      leaves = false;
    }
  });
  text.addEventListener("blur", () => {
    leaves = false;
  });
  document.addEventListener("reset", () => setTimeout(() => {
    number();
    htmx.trigger(text, "input");
  }));
  document.addEventListener("click", (event) => {
    const line = event.target.closest("[data-line]");
    if (line !== null) {
      go(Number(line.dataset.line));
    }
  });
  // An answer that was asked for before this one was applied says that another one is in force.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, pathInfo } = event.detail;
    if (target === state && new URL(pathInfo.requestPath, location).searchParams.get("seen") !== seen.value) {
      event.detail.shouldSwap = false;
    }
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === checked) {
      mark();
    }
    const applied = event.detail.target.querySelector("[data-applied]");
    if (applied !== null) {
      seen.value = applied.dataset.applied;
      state.setAttribute("hx-get", `/config/state?seen=${applied.dataset.applied}`);
      state.replaceChildren();
      text.defaultValue = text.value;
      // The button that was pressed can be used no more.
      applied.parentElement.focus();
      // What it would have changed was said of a configuration that was not in force yet.
      document.getElementById("config-compared").replaceChildren();
      htmx.process(state);
      htmx.trigger(text, "input");
    }
  });
  // Unsaved changes are not lost without a question.
  window.addEventListener("beforeunload", (event) => {
    if (text.value !== text.defaultValue) {
      event.preventDefault();
    }
  });
})();
