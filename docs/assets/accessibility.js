// For keyboards and screen readers, what the theme leaves to do.
const improve = () => {
  // The button of every code block is in a landmark: fifty without a name hide the others from who lists them.
  for (const nav of document.querySelectorAll("nav.md-code__nav")) nav.role = "none";
  // Keys scroll only what can have the focus.
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, div.arithmatex")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
    else wide.removeAttribute("tabindex");
  }
};
new MutationObserver(improve).observe(document.querySelector(".md-content"), {childList: true, subtree: true});
addEventListener("resize", improve);
