// The dialog: a field, the results under it, and the keyboard in both.
const dialog = document.querySelector("#search");
const input = dialog.querySelector("input");
const list = dialog.querySelector("#results");
const status = dialog.querySelector("[role=status]");
const KINDS = { page: _("page"), definition: _("code"), heading: _("section") };

const element = (name, ...children) => {
  const made = document.createElement(name);
  made.append(...children);
  return made;
};

// A text with the words that were found in it marked; a word counts from its start.
const marked = (text, words) => {
  if (!words.length) return [text];
  const parts = text.split(new RegExp(`((?:${marking(words)})+)`, "iu"));
  return parts.map((part, at) => (at % 2 ? element("mark", part) : part));
};

const option = (result, at) => {
  const words = result.terms.toSorted((a, b) => b.length - a.length);
  const link = element("a", element("b", ...marked(result.title, words)));
  link.append(element("i", result.kind === "page" ? KINDS.page : `${KINDS[result.kind]} · ${result.page}`));
  if (result.text) link.append(element("small", ...marked(excerpt(result.text, words), words)));
  Object.assign(link, { id: `result-${at}`, role: "option", className: result.kind, tabIndex: -1 });
  link.href = new URL(result.url, window.pylit.site);
  return link;
};

const select = (link) => {
  list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
  link?.setAttribute("aria-selected", "true");
  link?.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", link?.id ?? "");
};

// Results come when their scripts have; those of a query that was typed over are not shown.
const update = async () => {
  const asked = input.value;
  const results = await query(asked);
  if (asked !== input.value) return;
  list.replaceChildren(...results.map(option));
  list.scrollTop = 0;
  for (const link of list.children) link.ariaSelected = "false";
  input.ariaExpanded = String(results.length > 0);
  select(list.firstElementChild);
  const { length } = results;
  status.textContent = !asked.trim() ? _("Type the name of a class, or a word of a note.")
    : !length ? _("No results. Try the start of a word, or another word.")
      : length === 1 ? _("1 result")
        : length < MOST ? _("{0} results", length) : _("{0} or more results", length);
  list.dataset.query = asked;
};

const move = (by) => {
  const links = [...list.children];
  const at = links.findIndex((link) => link.ariaSelected === "true");
  select(links[(at + by + links.length) % links.length]);
};

input.addEventListener("input", update);
input.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves && list.children.length) move(moves[event.key]);
  else if (event.key === "Enter") list.querySelector("[aria-selected=true]")?.click();
  else return;
  event.preventDefault();
});
// A result on this very page leaves the dialog behind.
list.addEventListener("click", (event) => {
  if (event.target.closest("a") && !event.ctrlKey && !event.metaKey) dialog.close();
});
list.addEventListener("pointermove", (event) => {
  const link = event.target.closest("a");
  if (link && link.ariaSelected !== "true") select(link);
});

window.pylit.search = update;
