// Draw every formula that the Markdown extension has marked.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof renderMathInElement === "undefined") return; // offline: formulas stay as TeX
  for (const element of document.querySelectorAll(".arithmatex")) {
    unglue(element);
    renderMathInElement(element, {
      delimiters: [
        { left: "\\(", right: "\\)", display: false },
        { left: "\\[", right: "\\]", display: true },
      ],
      throwOnError: false,
    });
  }
});

// In docstrings `$$` may follow its sentence directly. The extension then takes the inner
// dollars for those of a formula in the line, and leaves the outer ones beside it.
function unglue(element) {
  const before = element.previousSibling, after = element.nextSibling;
  const glued = before?.nodeType === 3 && after?.nodeType === 3
    && before.data.endsWith("$") && after.data.startsWith("$");
  if (!glued) return;
  before.data = before.data.slice(0, -1);
  after.data = after.data.slice(1);
  element.textContent = element.textContent.replace(/^\\\(|\\\)$/g,
    (end) => (end === "\\(" ? "\\[" : "\\]"));
}
