"use strict";
// Tables sort and filter; what was chosen is kept in the URL fragment as a permalink.
(() => {
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const keep = (key, value) => {
    if (value) state.set(key, value); else state.delete(key);
    history.replaceState(null, "", "#" + state.toString());
  };
  window.kvbenchState = { get: (key) => state.get(key), keep };

  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.k === undefined ? cell.textContent : Number(cell.dataset.k);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1;
    if (typeof b === "number") return 1;
    return a < b ? -1 : a > b ? 1 : 0;
  };
  const sortBy = (table, column, down) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => [row, value(row, column), place]);
    rows.sort((a, b) => (down ? -1 : 1) * compare(a[1], b[1]) || a[2] - b[2]);
    body.append(...rows.map((entry) => entry[0]));
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  };
  const filterBy = (table, text, said) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => content.includes(word));
      if (!row.hidden) shown += 1;
    }
    said.textContent = words.length ? shown + " of " + table.tBodies[0].rows.length + " rows" : "";
  };
  const addFilter = (table) => {
    const bar = document.createElement("div");
    bar.className = "filter";
    const label = document.createElement("label");
    label.append("Filter rows: ");
    const input = document.createElement("input");
    input.type = "search";
    input.value = state.get("f." + table.id) || "";
    const said = document.createElement("output");
    label.append(input);
    bar.append(label, said);
    table.closest(".scroll").before(bar);
    input.addEventListener("input", () => {
      filterBy(table, input.value, said);
      keep("f." + table.id, input.value);
    });
    if (input.value) filterBy(table, input.value, said);
  };
  const addSorting = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        sortBy(table, column, down);
        keep("s." + table.id, column + (down ? "d" : "a"));
      });
    });
    const kept = /^(\d+)([ad])$/.exec(state.get("s." + table.id) || "");
    if (kept && Number(kept[1]) < table.tHead.rows[0].cells.length) {
      sortBy(table, Number(kept[1]), kept[2] === "d");
    }
  };
  for (const table of document.querySelectorAll("table.data")) {
    addSorting(table);
    if (table.tBodies[0].rows.length > 5) addFilter(table);
  }
})();
