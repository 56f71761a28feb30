// Blocks of code: copied without shapes, and reached with the keyboard where they scroll.
const bare = (part) => {
  part.querySelectorAll(".by, .self, samp").forEach((element) => element.remove());
  return part;
};
const copyButton = (block) => {
  const button = make("button", { type: "button" });
  const say = (text, label = text) => {
    button.textContent = text;
    button.ariaLabel = label;
    button.className = text === _("Copied") ? "done" : "";
  };
  const ready = () => say(_("Copy"), _("Copy the code"));
  button.onclick = async () => {
    const lines = [...block.querySelectorAll("code")].map((code) => bare(code.cloneNode(true)).textContent);
    // Without a secure connection there is no clipboard.
    const done = await navigator.clipboard?.writeText(lines.join("\n")).then(() => _("Copied"), () => "");
    say(done || _("Not copied"));
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
    textContent: _("Source"),
    ariaLabel: _("Source, lines {0} to {1}", first.slice(1), last.slice(1)),
  });
};

for (const block of findAll(".c, .fence")) {
  const tools = make("div", { className: "by" });
  tools.append(sourceLink(block), copyButton(block));
  block.append(tools);
}
for (const block of findAll(".import")) block.append(copyButton(block));

// What scrolls sideways can be reached with Tab while it does.
const NAMES = { PRE: _("Code"), CODE: _("Code"), DIV: _("Table") };
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
