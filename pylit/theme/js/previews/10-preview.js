// A preview beside a link in code: its signature and first paragraph, or where it leads outside.
const { _, load, site } = window.pylit;
const known = new Map();
window.pylit.previews = (entries) => {
  for (const [name, shown] of Object.entries(entries)) known.set(name, shown);
};

const tip = document.createElement("div");
Object.assign(tip, { id: "preview", role: "tooltip", popover: "manual" });
document.querySelector("main").append(tip);
let owner;
let timer;

// What to say of a link, as HTML that was made when the site was built, or as elements.
const contentOf = async (link) => {
  const name = link.dataset.x || link.hash.slice(1);
  if (link.dataset.x === undefined) {
    const title = document.createElement("code");
    const address = document.createElement("div");
    title.textContent = link.dataset.name;
    address.className = "address";
    address.textContent = link.href;
    return [title, address];
  }
  const path = decodeURI(link.href).split("#")[0].slice(decodeURI(site.href).length);
  await load(`previews/${path.replace(/\.html$/, ".js")}`);
  const shown = known.get(name);
  if (!shown) return [];
  const code = document.createElement("code");
  const note = document.createElement("div");
  [code.innerHTML, note.innerHTML] = shown;
  return [code, note].filter((part) => part.innerHTML);
};

// Under the link if there is room, else above it, and never outside the window.
const place = (link) => {
  const at = link.getClientRects()[0];
  const { width, height } = tip.getBoundingClientRect();
  const below = at.bottom + 6 + height < innerHeight || at.top < height + 6;
  tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
  tip.style.top = `${below ? at.bottom + 6 : at.top - height - 6}px`;
};

const hide = () => {
  clearTimeout(timer);
  owner?.removeAttribute("aria-describedby");
  if (owner?.dataset.name) owner.title = owner.dataset.name;
  owner = undefined;
  if (tip.matches(":popover-open")) tip.hidePopover();
};

const show = async (link) => {
  hide();
  owner = link;
  // The browser's own tooltip would say the same beside ours.
  if (link.title) {
    link.dataset.name = link.title;
    link.removeAttribute("title");
  }
  const content = await contentOf(link).catch(() => []);
  if (owner !== link || !content.length) return;
  tip.replaceChildren(...content);
  tip.className = "";
  tip.popover = "manual";
  tip.showPopover();
  place(link);
  link.setAttribute("aria-describedby", "preview");
};

const soon = (act, delay) => {
  clearTimeout(timer);
  timer = setTimeout(act, delay);
};

const onPointer = (event) => {
  if (event.pointerType === "touch") return;
  const link = event.target.closest?.("a.x");
  if (link === owner || tip.contains(event.target)) {
    if (owner) clearTimeout(timer);
  } else if (link) soon(() => show(link), 200);
  else soon(hide, 200);
};
const onFocus = (event) => {
  const link = event.target.closest?.("a.x");
  if (link?.matches(":focus-visible")) soon(() => show(link), 0);
  else if (owner) hide();
};

addEventListener("pointerover", onPointer);
addEventListener("focusin", onFocus);
// The focus may have scrolled the page; a link that has left the window takes its preview along.
const follow = () => {
  if (!owner) return;
  const { top, bottom } = owner.getBoundingClientRect();
  if (bottom < 0 || top > innerHeight) hide();
  else place(owner);
};
addEventListener("scroll", follow, { capture: true, passive: true });
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && owner) hide();
});

// What a word means, with the way to its entry. A tap elsewhere closes it.
window.pylit.sheet = async (term) => {
  const content = await contentOf(term);
  if (!content.length) throw new Error("no entry");
  hide();
  const more = Object.assign(document.createElement("a"), { href: term.href, textContent: _("Open in glossary") });
  tip.replaceChildren(...content, more);
  tip.className = "sheet";
  tip.popover = "auto";
  tip.showPopover();
};

// The event that asked for this script.
window.pylit.preview = (event) => (event.type === "focusin" ? onFocus : onPointer)(event);
