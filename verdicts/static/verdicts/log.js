// Copying a line with where it is from, and remembering whether lines wrap. The page works without this file.
(() => {
  "use strict";
  const wrap = document.getElementById("wrap");
  if (wrap) {
    try {
      wrap.checked = localStorage.getItem("wrap") !== "no";
      wrap.addEventListener("change", () => localStorage.setItem("wrap", wrap.checked ? "yes" : "no"));
    } catch {
      wrap.checked = true; // the browser keeps nothing for this site: the box still works
    }
  }

  const write = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Without TLS browsers offer only the old way.
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) throw new Error("refused");
    return undefined;
  };
  const said = document.getElementById("copied");
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const line = button.closest("li");
      const link = new URL(line.querySelector(".log-number").getAttribute("href"), location.href);
      const meta = line.querySelector(".log-meta").textContent.trim().replace(/\s+/g, " ");
      const text = `${line.querySelector(".raw").textContent}\n${[button.dataset.ref, meta].filter(Boolean).join(" · ")}\n${link}`;
      try {
        await write(text);
        said.textContent = "Copied.";
        button.firstChild.textContent = "Copied";
      } catch {
        said.textContent = "The browser refused to copy.";
        button.firstChild.textContent = "Refused";
      }
      setTimeout(() => {
        button.firstChild.textContent = "Copy";
        said.textContent = "";
      }, 2000);
    });
  }
})();
