// The index comes as a script, because a page opened from a disk may load nothing else.
const FIELDS = ["title", "page", "text"];
const STORED = ["url", "kind", "title", "page", "excerpt"];
const MOST = 30;
let index;

// A class or function before its methods, and what is public before what is not.
const weight = ({ kind, title }) => {
  if (kind !== "definition") return kind === "page" ? 1.5 : 1;
  return /(^|\.)_/.test(title) ? 0.5 : title.includes(".") ? 1 : 2.5;
};

window.pylit.index = (data) => {
  index = MiniSearch.loadJS(data, {
    fields: FIELDS,
    storeFields: STORED,
    tokenize: terms,
    processTerm: (term) => term,
    searchOptions: {
      boost: { title: 6, page: 1.5 },
      boostDocument: (id, term, stored) => weight(stored),
      // One slip in a word of five letters, two in one of ten; none in a short one.
      fuzzy: (term) => (term.length > 3 ? 0.2 : false),
      prefix: (term) => term.length > 1,
    },
  });
};

// What holds all of the words, or where nothing does, what holds any of them.
const query = (text) => {
  if (!index || !text.trim()) return [];
  const all = index.search(text, { combineWith: "AND" });
  return (all.length ? all : index.search(text)).slice(0, MOST);
};
