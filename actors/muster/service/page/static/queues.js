// Folds and unfolds the tree of queues. A cookie keeps it, and the service shows what is unfolded.
"use strict";

(() => {
  const NAME = "muster-queues";
  const LENGTH = 8; // of a mark
  const MOST = 200; // marks of each sort

  const marks = (text) => text.match(new RegExp(`.{${LENGTH}}`, "g")) ?? [];

  const read = () => {
    const found = document.cookie.split("; ").find((one) => one.startsWith(`${NAME}=`));
    return (found?.slice(NAME.length + 1) ?? "").split("~");
  };

  const keep = (mark, isOpen) => {
    const [open, folded] = [0, 1].map((at) => marks(read()[at] ?? "").filter((one) => one !== mark));
    (isOpen ? open : folded).push(mark);
    const text = [open, folded].map((one) => one.slice(-MOST).join("")).join("~");
    document.cookie = `${NAME}=${text}; path=/queues; max-age=31536000; samesite=strict`;
  };

  const fold = (button, isOpen) => {
    button.setAttribute("aria-expanded", isOpen);
    keep(button.dataset.fold, isOpen);
    htmx.trigger("#main", "refresh");
  };

  const isOpen = (button) => button.getAttribute("aria-expanded") === "true";

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-fold]");
    if (button !== null) {
      fold(button, !isOpen(button));
    }
  });

  // Arrows: up and down go from queue to queue, right unfolds, left folds.
  document.addEventListener("keydown", (event) => {
    const row = event.target.closest("#queues tbody tr");
    if (row === null || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) {
      return;
    }
    const button = row.querySelector("button[data-fold]");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
      next?.querySelector("th a")?.focus();
    } else if (event.key === "ArrowRight" && button !== null && !isOpen(button)) {
      fold(button, true);
    } else if (event.key === "ArrowLeft" && button !== null && isOpen(button)) {
      fold(button, false);
    } else {
      return;
    }
    event.preventDefault();
  });
})();
