// The index comes as a script, because a page opened from a disk may load nothing else.
const FIELDS = ["title", "page", "text"];
const STORED = ["url", "kind", "title", "page", "excerpt"];
const WEIGHT = { page: 1.5, definition: 1.4, heading: 1 };
const MOST = 30;
let index;

window.pylit.index = (data) => {
  index = MiniSearch.loadJS(data, {
    fields: FIELDS,
    storeFields: STORED,
    tokenize: terms,
    processTerm: (term) => term,
    searchOptions: {
      boost: { title: 6, page: 1.5 },
      boostDocument: (id, term, stored) => WEIGHT[stored.kind],
      // One slip in a word of five letters, two in one of ten; none in a short one.
      fuzzy: (term) => (term.length > 3 ? 0.2 : false),
      prefix: (term) => term.length > 1,
    },
  });
};

// What holds all of the words, or where nothing does, what holds any of them.
const query = (text) => {
  if (!text.trim()) return [];
  const all = index.search(text, { combineWith: "AND" });
  return (all.length ? all : index.search(text)).slice(0, MOST);
};
