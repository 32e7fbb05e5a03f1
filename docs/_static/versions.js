// Lists the versions of the documentation. VERSIONS comes from the file beside all their folders.
(() => {
  if (typeof VERSIONS === "undefined") return;
  const place = document.getElementById("versions");
  const caption = document.createElement("p");
  caption.className = "caption";
  caption.textContent = "Versions";
  const list = document.createElement("ul");
  for (const version of VERSIONS) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    item.className = "toctree-l1";
    link.className = "reference internal";
    link.textContent = version;
    if (version === place.dataset.version) {
      link.href = "#";
      item.classList.add("current", "current-page");
    } else {
      link.href = `${place.dataset.root}${version}/index.html`;
    }
    item.append(link);
    list.append(item);
  }
  place.append(caption, list);
})();
