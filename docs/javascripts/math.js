// Draw every formula that the Markdown extension has marked.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof renderMathInElement === "undefined") return; // offline: formulas stay as TeX
  for (const element of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(element, {
      delimiters: [
        { left: "\\(", right: "\\)", display: false },
        { left: "\\[", right: "\\]", display: true },
      ],
      throwOnError: false,
    });
  }
});
