
// Heads of columns become buttons that sort. A row without a value stays at the end.
"use strict";

function key(row, column) {
  const cell = row.cells[column];
  return "key" in cell.dataset ? Number(cell.dataset.key) : cell.textContent;
}

function compare(a, b) {
  const numbers = typeof a === "number" && typeof b === "number";
  return numbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function sort(table, column, direction) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => [key(row, column), row]);
  rows.sort(([a], [b]) => (a === "") - (b === "") || direction * compare(a, b));
  body.append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.classList.contains("text") ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      sort(table, column, order === "ascending" ? 1 : -1);
    });
  });
}
