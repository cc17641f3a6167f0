// For keyboards and screen readers, what the theme leaves to do.
const improve = () => {
  // The button of every code block and every part of the table of contents is in a landmark of its own: fifty of them hide
  // the others from who lists them.
  for (const nav of document.querySelectorAll("nav.md-code__nav, .md-nav--secondary nav")) {
    nav.role = "none";
    nav.removeAttribute("aria-label");
  }
  // Keys scroll only what can have the focus.
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, div.arithmatex")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
    else wide.removeAttribute("tabindex");
  }
};
new MutationObserver(improve).observe(document.querySelector(".md-content"), {childList: true, subtree: true});
addEventListener("resize", improve);
improve();
