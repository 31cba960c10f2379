"use strict";
// Copies a table as CSV or LaTeX. All of it is read from the page as text.
function cells(table) {
  return [...table.rows].map((row) => [...row.cells].map((cell) => {
    const hidden = cell.querySelector(".unseen");
    return hidden ? "" : cell.textContent.trim();
  }));
}
function csvCell(text) {
  // A spreadsheet would run text that begins like a formula.
  const number = text !== "" && !Number.isNaN(Number(text.replaceAll(",", "")));
  if (number) return text.replaceAll(",", "");
  const safe = /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
  return /[",\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
}
const LATEX = { "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\\": "\\textbackslash{}", "<": "\\textless{}", ">": "\\textgreater{}" };
function latexCell(text) {
  const escaped = text.replace(/[&%$#_{}~^\\<>]/g, (letter) => LATEX[letter]);
  return /^-[\d.]/.test(text) ? "$-$" + escaped.slice(1) : escaped;
}
function asCsv(table) {
  return cells(table).map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
}
function asLatex(table) {
  const rows = cells(table).map((row) => "    " + row.map(latexCell).join(" & ") + " \\\\");
  const columns = "l" + "r".repeat(Math.max(0, table.rows[0].cells.length - 1));
  return ["\\begin{table}", "  \\centering", "  \\caption{" + latexCell(table.caption.textContent.trim()) + "}", "  \\begin{tabular}{" + columns + "}", "    \\toprule", rows[0], "    \\midrule", ...rows.slice(1), "    \\bottomrule", "  \\end{tabular}", "\\end{table}", ""].join("\n");
}
function copyByHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByHand(text);
  }
}
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const block = button.closest(".table");
  const text = (button.dataset.copy === "csv" ? asCsv : asLatex)(block.querySelector("table"));
  const done = await copy(text);
  button.focus();
  block.querySelector("[role=status]").textContent = done ? "Copied." : "The browser refused to copy.";
});
// What is folded on the screen is open on paper.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((each) => { each.open = true; });
});
window.addEventListener("afterprint", () => folded.forEach((each) => { each.open = false; }));
