// The dialog: a field, the results under it, and the keyboard in both.
const dialog = document.querySelector("#search");
const input = dialog.querySelector("input");
const list = dialog.querySelector("#results");
const status = dialog.querySelector("[role=status]");
const answer = dialog.querySelector("#answer");
const ask = dialog.querySelector("#ask");
const KINDS = { page: _("page"), definition: _("code"), heading: _("section"), note: _("note"), term: _("glossary") };
// Results under a title, in the order of the best of each, and of each so many.
const GROUPS = [
  [_("Code"), ({ kind }) => kind === "definition"],
  [_("Lessons"), ({ rank }) => rank === 2],
  [_("More"), () => true],
];
const OF_EACH = 6;

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

const grouped = (results) => {
  const groups = new Map();
  for (const result of results) {
    const [title] = GROUPS.find(([, holds]) => holds(result));
    groups.set(title, [...(groups.get(title) ?? []), result]);
  }
  let at = 0;
  return [...groups].map(([title, all]) => {
    const name = Object.assign(element("span", title), { ariaHidden: "true" });
    const group = element("div", name, ...all.slice(0, OF_EACH).map((result) => option(result, at++)));
    return Object.assign(group, { role: "group", ariaLabel: title });
  });
};

// The sentence of the glossary on what is asked for, whole.
const explain = (term) => {
  answer.hidden = !term;
  if (!term) return answer.replaceChildren();
  const link = Object.assign(element("a", _("Glossary")), { href: new URL(term.url, window.pylit.site) });
  answer.replaceChildren(element("b", term.title), ` ${term.text} `, link);
};

const options = () => [...list.querySelectorAll("a")];
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
  const term = results.find(({ kind, exact }) => kind === "term" && exact);
  explain(term);
  ask.hidden = asked.trim() !== "";
  list.replaceChildren(...grouped(results.filter((result) => result !== term)));
  list.scrollTop = 0;
  const links = options();
  for (const link of links) link.ariaSelected = "false";
  input.ariaExpanded = String(links.length > 0);
  select(links[0]);
  const { length } = links;
  status.textContent = !asked.trim() ? ""
    : !length && !term ? _("No results. Try the start of a word, or another word.")
      : length === 1 ? _("1 result") : _("{0} results", length);
  list.dataset.query = asked;
};

const move = (by) => {
  const links = options();
  const at = links.findIndex((link) => link.ariaSelected === "true");
  select(links[(at + by + links.length) % links.length]);
};

input.addEventListener("input", update);
input.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves && options().length) move(moves[event.key]);
  else if (event.key === "Enter") list.querySelector("[aria-selected=true]")?.click();
  else return;
  event.preventDefault();
});
// A result on this very page leaves the dialog behind.
dialog.addEventListener("click", (event) => {
  if (event.target.closest("a") && !event.ctrlKey && !event.metaKey) dialog.close();
});

// As long as nothing is typed: questions, and the pages that were read last.
for (const question of ask.querySelectorAll("button")) {
  question.onclick = () => {
    input.value = question.textContent;
    input.focus();
    update();
  };
}
const { visited } = window.pylit;
if (visited.length) {
  ask.append(element("p", _("Last read")));
  for (const [url, title] of visited) ask.append(Object.assign(element("a", title), { href: new URL(url, window.pylit.site) }));
}
list.addEventListener("pointermove", (event) => {
  const link = event.target.closest("a");
  if (link && link.ariaSelected !== "true") select(link);
});

window.pylit.search = update;
