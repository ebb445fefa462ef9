/* What the theme leaves out: names for its search, for parts of the navigation and for each block's buttons, the
   keyboard for what scrolls, and what a block's button copies: of a session the commands alone. */
function typed(code) {
  const python = code.closest(".language-python");
  let more = false;
  const lines = code.textContent.split("\n").filter((line) => {
    const is = line.startsWith(python ? ">>> " : "$ ") || (more && (!python || line.startsWith("...")));
    more = is && (python || line.endsWith("\\"));
    return is;
  });
  return lines.map((line) => line.replace(/^(\$ |>>> |\.\.\. ?)/, "")).join("\n");
}
function complete() {
  for (const code of document.querySelectorAll(":is(.language-console, .language-python) code:not([data-copy])")) {
    const text = typed(code);
    if (text) code.dataset.copy = text;
  }
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const part of document.querySelectorAll("nav nav nav[aria-labelledby]")) {
    const named = (nav) => document.getElementById(nav.getAttribute("aria-labelledby"))?.textContent.trim() ?? "";
    const whole = part.parentElement.closest("nav[aria-labelledby]");
    part.setAttribute("aria-label", `${whole ? `${named(whole)}: ` : ""}${named(part)}`);
    part.removeAttribute("aria-labelledby");
  }
  document.querySelectorAll(".md-code__nav").forEach((nav, k) => nav.setAttribute("aria-label", `Block ${k + 1}`));
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .home-scroll, p:has(> img)")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}
complete();
addEventListener("load", complete);
addEventListener("resize", complete);
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
