// The texts come as a script, because a page opened from a disk may load nothing else; the index is
// made of them here.
const MOST = 30;
// So much of a text is shown under a result, and so much of that before the word that was found.
const EXCERPT = 160, BEFORE = 50;
const SMALL = new Set("a an and are can do does for how i in is it its my of on or the to use what with why".split(" "));
let entries = [];
let index;

// A page before a class, a class before its methods, and what is public before what is not.
const weigh = ({ kind, title }) => {
  if (kind !== "definition") return kind === "page" ? 3 : 1;
  if (/(^|\.)_/.test(title)) return 0.4;
  return /(Config|Error)$/.test(title) ? 0.6 : title.includes(".") ? 0.8 : 1.8;
};

// However it is written: KVCache, kv_cache and "KV cache" are one name.
const spelt = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

window.pylit.index = (pages) => {
  entries = pages.flatMap(([url, rank, page, names, text, parts]) => [
    { url, rank, kind: "page", title: page, page: "", names, text },
    ...parts.map(([anchor, text, title]) => ({
      url: `${url}#${anchor}`, rank, page, names: [], text,
      ...(title ? { kind: "heading", title } : { kind: "definition", title: anchor }),
    })),
  ]);
  entries.forEach((entry, id) => {
    const exact = new Set([entry.title, ...entry.names].map(spelt));
    Object.assign(entry, { id, exact, weight: weigh(entry) * (1 + entry.rank / 2) });
  });
  const made = new MiniSearch({
    fields: ["title", "names", "page", "text"],
    tokenize: terms,
    processTerm: (term) => term,
    searchOptions: {
      boost: { title: 6, names: 6, page: 1.5 },
      boostDocument: (id) => entries[id].weight,
      // One slip in a word of five letters, two in one of ten; none in a short one.
      fuzzy: (term) => (term.length > 3 ? 0.2 : false),
      prefix: (term) => term.length > 1,
    },
  });
  // In pieces, between which a reader can type.
  made.addAllAsync(entries, { chunkSize: 250 }).then(() => {
    index = made;
    window.pylit.search();
  });
};

// What holds all of the words, or where nothing does, what holds any of them; before both, what is
// called exactly so.
const query = (text) => {
  if (!index || !text.trim()) return [];
  const asked = spelt(text);
  const telling = terms(text).filter((term) => !SMALL.has(term)).join(" ") || text;
  const all = index.search(telling, { combineWith: "AND" });
  const found = all.length ? all : index.search(telling);
  const named = (id) => entries[id].exact.has(asked) * entries[id].weight;
  return found
    .sort((a, b) => named(b.id) - named(a.id) || b.score - a.score)
    .slice(0, MOST)
    .map(({ id, terms }) => ({ ...entries[id], terms }));
};

// The words of a text around the first that was found.
const excerpt = (text, words) => {
  const found = words.length ? text.search(new RegExp(`(?<![a-z0-9])(?:${words.join("|")})`, "i")) : 0;
  const start = found > EXCERPT - BEFORE ? text.lastIndexOf(" ", found - BEFORE) + 1 : 0;
  const rest = text.slice(start, start + EXCERPT);
  const end = start + EXCERPT < text.length ? rest.replace(/\s\S*$/, " …") : rest;
  return (start ? "… " : "") + end;
};
