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
  if (name.closest("a")) continue;
  name.role = "button";
  name.tabIndex = 0;
  name.ariaPressed = "false";
  name.title = "Show it in code and formulas";
}
if (symbolNames.length) {
  addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch") light(marksAt(event.target) || kept || around());
  });
  addEventListener("focusin", ({ target }) => {
    stood = stopOf(target);
    light(kept && target.matches(kept) ? kept : marksAt(target) || kept);
  });
  addEventListener("focusout", () => light(kept));
  // A click beside all marks puts the light out; one on a link leads where the link does.
  addEventListener("click", (event) => {
    const marks = marksAt(event.target);
    if (event.target.closest?.("a") || (marks && !getSelection().isCollapsed)) return;
    keep(marks === kept ? "" : marks);
    stood = stopOf(event.target.closest?.(".lit") ?? event.target);
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") keep("");
    if (!symbolNames.includes(event.target) || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    const marks = marksOf(event.target);
    keep(marks === kept ? "" : marks);
    light(marks);
  });
}
