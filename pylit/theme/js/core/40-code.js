// Blocks of code: copied without shapes, and reached with the keyboard where they scroll.
const codeOf = (block) =>
  [...block.querySelectorAll("code")]
    .map((code) => {
      const copy = code.cloneNode(true);
      copy.querySelectorAll("[aria-hidden], .self, samp").forEach((part) => part.remove());
      return copy.textContent;
    })
    .join("\n");

const copyButton = (block) => {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
  button.ariaLabel = "Copy the code";
  button.addEventListener("click", async () => {
    // Without a secure connection there is no clipboard.
    const done = await navigator.clipboard?.writeText(codeOf(block)).then(() => "Copied", () => "");
    button.textContent = button.ariaLabel = done || "Not copied";
    setTimeout(() => {
      button.textContent = "Copy";
      button.ariaLabel = "Copy the code";
    }, 1500);
  });
  return button;
};

// To the same lines in the repository.
const sourceLink = (block) => {
  const source = find("#source");
  const numbers = block.querySelectorAll(".n");
  if (!source || !numbers.length) return "";
  const [first, last] = [numbers[0], numbers[numbers.length - 1]].map((number) => number.id);
  const link = Object.assign(document.createElement("a"), { textContent: "Source" });
  link.href = `${source.href}#${first}-${last}`;
  link.ariaLabel = `Source, lines ${first.slice(1)} to ${last.slice(1)}`;
  return link;
};

for (const block of findAll(".c, .fence")) {
  const tools = document.createElement("div");
  tools.className = "by";
  tools.append(sourceLink(block), copyButton(block));
  block.append(tools);
}
const importLine = find(".import");
importLine?.append(copyButton(importLine));

// What scrolls sideways can be reached with Tab while it does.
const NAMES = { PRE: "Code", CODE: "Code", DIV: "Table" };
const watchWidth = new ResizeObserver((changes) => {
  const found = changes.map(({ target }) => [target, target.scrollWidth > target.clientWidth]);
  for (const [target, wide] of found) {
    target.toggleAttribute("tabindex", wide);
    if (wide) target.tabIndex = 0;
    if (NAMES[target.tagName]) {
      target.role = wide ? "group" : null;
      target.ariaLabel = wide ? NAMES[target.tagName] : null;
    }
  }
});
findAll(".c pre, .fence, .import code, .table-scroll, mjx-container[display]").forEach((block) => watchWidth.observe(block));

// A click on the number of a line leads to the line.
addEventListener("click", ({ target }) => {
  if (target.matches(".n")) location.hash = target.id;
});

// A selection is copied with its formulas as TeX, and without the shapes of lines.
addEventListener("copy", (event) => {
  const selection = getSelection();
  if (!selection.rangeCount) return;
  const part = document.createElement("div");
  part.append(selection.getRangeAt(0).cloneContents());
  const formulas = part.querySelectorAll("mjx-container");
  if (!formulas.length) return;
  for (const formula of formulas) {
    const sign = formula.hasAttribute("display") ? "$$" : "$";
    formula.replaceWith(sign + formula.dataset.tex + sign);
  }
  part.querySelectorAll(".by, .self, samp").forEach((element) => element.remove());
  // `innerText` has the line breaks that are seen, for elements that are on the page.
  document.body.append(part);
  event.clipboardData.setData("text/plain", part.innerText);
  part.remove();
  event.preventDefault();
});
