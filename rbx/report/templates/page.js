"use strict";
(() => {
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("rbx-theme"); } catch { return null; } })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("rbx-theme", root.dataset.theme); } catch { /* a page opened from a file may not store */ }
  });

  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? null : Number(cell.dataset.sort);
  };
  const compare = (a, b, column, numeric) => {
    if (!numeric) return a.cells[column].textContent.trim().localeCompare(b.cells[column].textContent.trim());
    return key(a, column) - key(b, column);
  };
  const sort = (table, heading, column) => {
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const numeric = rows.some((row) => key(row, column) !== null);
    const known = numeric ? rows.filter((row) => key(row, column) !== null) : rows;
    const unknown = numeric ? rows.filter((row) => key(row, column) === null) : [];
    known.sort((a, b) => (ascending ? 1 : -1) * compare(a, b, column, numeric));
    body.append(...known, ...unknown);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      heading.querySelector("button").addEventListener("click", () => sort(table, heading, column));
    });
  }
  const measure = () => {
    for (const box of document.querySelectorAll("figure.table .scroll")) {
      box.classList.toggle("overflows", box.scrollWidth > box.clientWidth + 1);
    }
  };
  addEventListener("resize", measure);
  document.addEventListener("toggle", measure, true);
  measure();
  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
