// A symbol and its variable light up together: pointed at, in focus, or kept on by a tap or Enter.
// What belongs together has a class in common, `y1`, `y2`, …; marks are told apart by a selector.
const MARK = /^y\d+$/;
const marksOf = (element) =>
  [...(element?.classList ?? [])].filter((name) => MARK.test(name)).map((name) => `.${name}`).join();

// The marks at a place: those around it, or of the letter that an index or a link is about.
const marksAt = (element) => {
  for (; element && !/^(MJX-CONTAINER|PRE|TD|DIV)$/.test(element.tagName); element = element.parentElement) {
    const holder = /^(A|MJX-MSU[BP].*)$/.test(element.tagName) ? element.firstElementChild : element;
    const marks = marksOf(element) || marksOf(holder);
    if (marks) return marks;
  }
  return "";
};

const symbolNames = findAll("td code").filter(marksOf);
let lit = [];
let shown = "";
let kept = "";
const light = (marks) => {
  if (marks === shown) return;
  shown = marks;
  lit.forEach((element) => element.classList.remove("lit"));
  lit = marks ? findAll(marks) : [];
  lit.forEach((element) => element.classList.add("lit"));
};
const keep = (marks) => {
  kept = marks;
  light(marks);
  for (const name of symbolNames) if (name.role) name.ariaPressed = `${!!kept && marksOf(name) === kept}`;
};
const toggle = (marks) => keep(marks === kept ? "" : marks);
// What the focus is on lights it too, unless it only stopped there on the way from place to place.
const around = () => (document.activeElement.tabIndex < 0 ? "" : marksAt(document.activeElement));

// From one lit place to the next, counted from where the reader was last. In a formula it is the
// formula that gets the focus, for what is seen of it is hidden from screen readers.
const stopOf = (element) => element.closest("mjx-container, a") ?? element;
let stood;
const stepLit = (by) => {
  const places = lit.filter((e) => e.checkVisibility() && !e.closest("#outline"));
  const stops = [...new Set(places.map(stopOf))];
  if (!stops.length) return;
  keep(shown);
  const at = stops.indexOf(stood);
  const next = stops.at((at + by + (at < 0 && by < 0)) % stops.length);
  if (next.tabIndex < 0) next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "center" });
};

for (const name of symbolNames) {
  if (!name.closest("a")) {
    Object.assign(name, { role: "button", tabIndex: 0, ariaPressed: "false", title: _("Show it in code and formulas") });
  }
}
addEventListener("pointerover", ({ target, pointerType }) => {
  if (pointerType !== "touch") light(marksAt(target) || kept || around());
});
addEventListener("focusin", ({ target }) => {
  stood = stopOf(target);
  light(kept && target.matches(kept) ? kept : marksAt(target) || kept);
});
addEventListener("focusout", () => light(kept));
// A click beside all marks puts the light out; one on a link leads where the link does.
addEventListener("click", ({ target }) => {
  const marks = marksAt(target);
  if (target.closest("a") || (marks && !getSelection().isCollapsed)) return;
  toggle(marks);
  stood = stopOf(target.closest(".lit") ?? target);
});
addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (key === "Escape") keep("");
  if (!symbolNames.includes(target) || !["Enter", " "].includes(key)) return;
  event.preventDefault();
  toggle(marksOf(target));
  light(marksOf(target));
});
