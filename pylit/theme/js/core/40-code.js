// Blocks of code: copied without shapes, and reached with the keyboard where they scroll.
const bare = (part) => {
  part.querySelectorAll(".by, .self, samp").forEach((element) => element.remove());
  return part;
};
const copyButton = (block) => {
  const button = make("button", { type: "button" });
  const say = (text, label) => {
    button.textContent = text;
    button.ariaLabel = label;
  };
  const ready = () => say("Copy", "Copy the code");
  button.onclick = async () => {
    const lines = [...block.querySelectorAll("code")].map((code) => bare(code.cloneNode(true)).textContent);
    // Without a secure connection there is no clipboard.
    const done = await navigator.clipboard?.writeText(lines.join("\n")).then(() => "Copied", () => "");
    say(done || "Not copied", done || "Not copied");
    setTimeout(ready, 1500);
  };
  ready();
  return button;
};

// To the same lines in the repository.
const source = find("#source");
const sourceLink = (block) => {
  const lines = [...block.querySelectorAll(".n")].map((number) => number.id);
  if (!source || !lines.length) return "";
  const [first, last] = [lines[0], lines.at(-1)];
  return make("a", {
    href: `${source.href}#${first}-${last}`,
    textContent: "Source",
    ariaLabel: `Source, lines ${first.slice(1)} to ${last.slice(1)}`,
  });
};

for (const block of findAll(".c, .fence")) {
  const tools = make("div", { className: "by" });
  tools.append(sourceLink(block), copyButton(block));
  block.append(tools);
}
for (const block of findAll(".import")) block.append(copyButton(block));

// What scrolls sideways can be reached with Tab while it does.
const NAMES = { PRE: "Code", CODE: "Code", DIV: "Table" };
const watchWidth = new ResizeObserver((changes) => {
  const found = changes.map(({ target }) => [target, target.scrollWidth > target.clientWidth]);
  for (const [target, wide] of found) {
    const name = NAMES[target.tagName];
    if (wide) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
    if (name) {
      target.role = wide ? "group" : null;
      target.ariaLabel = wide ? name : null;
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
  const part = make("div", {});
  part.append(selection.getRangeAt(0).cloneContents());
  const formulas = part.querySelectorAll("mjx-container");
  if (!formulas.length) return;
  for (const formula of formulas) {
    const sign = formula.hasAttribute("display") ? "$$" : "$";
    formula.replaceWith(sign + formula.dataset.tex + sign);
  }
  // `innerText` has the line breaks that are seen, for elements that are on the page.
  document.body.append(bare(part));
  event.clipboardData.setData("text/plain", part.innerText);
  part.remove();
  event.preventDefault();
});
