/* What the theme leaves out: a name for its search and for each block's buttons, and the keyboard for what scrolls. */
function complete() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
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
