for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], original = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  // Numbers have a true minus and separators of thousands.
  const number = text => parseFloat(text.replace("−", "-").replace(/,(?=\d{3})/g, ""));
  const value = (row, index) => row.cells[index].firstChild ? row.cells[index].textContent.trim() : "";
  headings.forEach((heading, index) => heading.firstElementChild.addEventListener("click", () => {
    const next = {ascending: "descending", descending: "none"}[heading.getAttribute("aria-sort")] || "ascending";
    headings.forEach(other => other.removeAttribute("aria-sort"));
    if (next !== "none") heading.setAttribute("aria-sort", next);
    table.classList.toggle("sorted", next !== "none");
    const sign = next === "descending" ? -1 : 1;
    const numeric = heading.classList.contains("number");
    const rows = next === "none" ? original : [...original].sort((one, two) => {
      const a = value(one, index), b = value(two, index);
      if (!numeric) return sign * a.localeCompare(b);
      const x = number(a), y = number(b);
      return Number.isNaN(x) ? (Number.isNaN(y) ? 0 : 1) : Number.isNaN(y) ? -1 : sign * (x - y);
    });
    body.append(...rows);
  }));
}
