// Where the reader is: marked on the page and in the outline.
const sections = findAll(".s");
const outline = find("#outline");
const targetOf = ({ hash }) => {
  try { return document.getElementById(decodeURIComponent(hash.slice(1))) } catch { /* no address of ours */ }
};
const entries = findAll("#outline a").map((link) => {
  const target = targetOf(link);
  return [link, target, sections.indexOf(target.closest(".s"))];
});
let current = -1;
let entry;

// Where `j` or `k` went last counts as long as its top is in sight: the end of a short section may be
// above the line, and the last sections of a page never reach it.
let stepped;
const markSection = (line) => {
  const top = stepped === document.activeElement ? stepped.getBoundingClientRect().top : -1;
  const index = top >= 0 && top < innerHeight
    ? sections.indexOf(stepped)
    : sections.findLastIndex((section) => section.getBoundingClientRect().top < line);
  if (index === current) return;
  sections[current]?.classList.remove("on");
  sections[index]?.classList.add("on");
  current = index;
};

// The rail follows the reader, but must not move the page: so no `scrollIntoView`. What is far from the
// window is not laid out, and would be if it were asked where it is; so only the current section is.
const markEntry = (line) => {
  const last = entries.findLast(
    ([, target, at]) => at < current || (at === current && target.getBoundingClientRect().top < line),
  )?.[0];
  if (last === entry) return;
  entry?.removeAttribute("aria-current");
  last?.setAttribute("aria-current", "location");
  entry = last;
  outline.scrollTop = (last?.offsetTop ?? 0) - outline.clientHeight / 2;
};

// Browsers send both events right before they paint, once.
const look = () => {
  const line = innerHeight * 0.3;
  markSection(line);
  markEntry(line);
};
for (const sign of ["scroll", "resize"]) addEventListener(sign, look);
requestAnimationFrame(look);

// A page is shown when what is near the window is laid out. The rest follows, a section in each frame, or
// in one column a part of a section: from then on heights are true, and all of it can be selected. (Of
// two that change in one frame, one above the window could move what is in it.) In one column a picture
// waits until it comes near: it costs most, and has no text to select.
const later = matchMedia("(max-width: 59.99rem)").matches
  ? findAll(".s > :not(.p:has(> figure:only-child))")
  : [...sections];
// Back, and a reload, lead to where a reader was. A browser keeps that in pixels, and a page that is laid
// out anew has other heights until it is whole. So kept is a section, and where its top was.
const place = `pylit-at ${location.pathname}`;
const left = () => {
  const [{ type } = {}] = performance.getEntriesByType("navigation");
  try { return /reload|back/.test(type) ? JSON.parse(sessionStorage[place]) : [] } catch { return [] }
};
addEventListener("pagehide", () => {
  const at = current < 0 ? [] : [current, sections[current].getBoundingClientRect().top];
  try { sessionStorage[place] = JSON.stringify(at) } catch { /* forbidden */ }
});
const [leftAt, leftTop] = left();
if (sections[leftAt]) history.scrollRestoration = "manual";
// What is looked for is laid out at once, with what stands right above it, or it would not stay in its place.
const aim = sections[leftAt] ?? targetOf(location)?.closest(".s");
for (const near of [aim?.previousElementSibling, aim]) {
  for (const part of near?.children ?? []) part.style.contentVisibility = "visible";
}
// Until all is laid out, or the reader scrolls, what was in the window is put back where it was.
let back = Boolean(sections[leftAt]);
for (const sign of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(sign, () => { back = false }, { once: true });
const putBack = () => {
  if (back) scrollBy(0, aim.getBoundingClientRect().top - leftTop);
};
const layOut = () => {
  putBack();
  if (!later.length) return;
  later.shift().style.contentVisibility = "visible";
  requestAnimationFrame(layOut);
};
addEventListener("load", () => {
  layOut();
  history.scrollRestoration = "auto";
});

// A section back or ahead, with the focus, so that Tab goes on from there.
const step = (by) => {
  const section = sections[Math.min(Math.max(current + by, 0), sections.length - 1)];
  if (!section) return;
  stepped = section;
  section.tabIndex = -1;
  section.focus({ preventScroll: true });
  section.scrollIntoView();
  look();
};

// The panel has done its work once an entry was chosen.
outline?.addEventListener("click", (event) => {
  if (event.target.closest("a") && outline.matches(":popover-open")) outline.hidePopover();
});

// A link to a line that is folded away opens it.
const unfold = () => {
  const folded = targetOf(location)?.closest("details");
  if (folded) folded.open = true;
};
addEventListener("hashchange", unfold);
unfold();
