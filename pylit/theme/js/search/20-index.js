// The index of a site, in scripts of which a query loads a few: a page opened from a disk may load
// nothing else. `pylit/outputs/search.py` tells what they hold.
const MOST = 30;
// So many scripts of terms are looked through for what begins like a word.
const REACH = 3;
// A term that only begins like the word, or is a slip away from it, answers it less.
const BEGINS = 0.375, SLIP = 0.45;
// So much of a text is shown under a result, and so much of that before the word that was found. A
// Chinese character is twice as wide as a letter.
const EXCERPT = 160, BEFORE = 50;
// What questions are made of beside what they ask for, in English and in Chinese.
const SMALL = new Set(`a about actually all an and any are as at be because been being between by can come could did do
  does doing each else even exactly explain explained for from get gets give given go good had has have having he help how i if
  in instead into is it its just like make makes many me mean meaning means much my need needed needs no not now of
  on one only or other our really should show so some such tell than that the their them then there these they thing
  this those to too up us use used uses using very vs want was way we well were what when where whether which while
  who why will with without work working works would you your`.split(/\s+/));
const ASKED = /为什么|为何|什么是|是什么|什么|怎么样|怎样|怎么|如何|哪些|哪个|哪里|多少|有没有|能不能|可不可以|可以|需要|应该|之间|区别|一下|吗|呢|吧|是否|的|了|是|有|和|与|跟|在|用|把|被|会|能|要/g;

// A page in another language has an index of its own.
const { _, load } = window.pylit;
const edition = document.documentElement.dataset.edition ?? "";
const held = new Map();
window.pylit.found = (name, data) => held.set(name, data);
const get = async (name) => {
  if (!held.has(name)) await load(`${edition}${name}.js`);
  return held.get(name);
};
window.pylit.prepare = () => get("search-index");

// However it is written: KVCache, kv_cache and "KV cache" are one name.
const spelt = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

// The last of some sorted values that is not above one.
const place = (values, value) => {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return Math.max(low - 1, 0);
};

// Terms from a word on, each with the entries that hold it and their scores.
const shelf = async (word, reach) => {
  const { shards } = await get("search-index");
  const at = place(shards, word);
  const near = shards.slice(at, at + reach).filter((first, n) => !n || first.startsWith(word));
  const parts = await Promise.all(near.map((first, n) => get(`search/terms-${at + n}`)));
  return parts.flatMap(Object.entries);
};
const entries = ([term, told]) => {
  if (told instanceof Map) return told;
  const found = new Map();
  for (let n = 0, id = 0; n < told.length; n += 2) found.set(id += told[n], told[n + 1]);
  return found;
};

// How many slips are between two words: letters that are missing, too many, wrong or swapped.
const slips = (a, b, most) => {
  let before = [], last = [...Array(b.length + 1).keys()];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row[j] = Math.min(row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    if (Math.min(...row) > most) return most + 1;
    before = last;
    last = row;
  }
  return last[b.length];
};

// What a word may stand for: each term, with how well it does and the entries that hold it.
const meant = async (word) => {
  // One slip in a word of five letters, two in one of ten; none in a short one, or in Chinese, where a
  // single character is the beginning of a term.
  const isHan = HAN.test(word);
  const canBegin = isHan || word.length > 1;
  const most = !isHan && word.length > 4 ? Math.round(0.2 * word.length) : 0;
  // One and many are one word.
  const stem = !isHan && /[^aisu]s$/.test(word) && word.length > 3 ? word.slice(0, -1) : word;
  const alike = (term) => {
    const more = term.length - stem.length;
    if (term === stem || term === `${stem}s`) return 1;
    if (canBegin && term.startsWith(stem)) return (BEGINS * term.length) / (term.length + 0.3 * more);
    const wrong = Math.abs(term.length - word.length) > most ? most + 1 : slips(word, term, most);
    return wrong > most ? 0 : (SLIP * term.length) / (term.length + 2 * wrong);
  };
  const read = (items) => items.map((item) => [item[0], alike(item[0]), item]).filter(([, weight]) => weight);
  let found = read(await shelf(stem.slice(0, stem.length - most), canBegin ? REACH : 1));
  if (most && !found.some(([term]) => term.startsWith(stem))) {
    // Only the nearest words: who types "tranformer" means "transformer", not "transformers".
    const wrong = (term) => (Math.abs(term.length - word.length) > most ? most + 1 : slips(word, term, most));
    const known = (await get("search/words")).split(" ").map((term) => [term, wrong(term)]);
    const least = known.reduce((least, [, count]) => Math.min(least, count), most);
    const near = known.filter(([, count]) => count === least).map(([term]) => term);
    found = read((await Promise.all(near.map((term) => shelf(term, 1)))).flat().filter(([term]) => near.includes(term)));
    found = [...new Map(found.map((one) => [one[0], one])).values()];
  }
  return found.map(([term, weight, item]) => [term, weight, entries(item)]);
};

// Entries with the sum of what their terms score, for one word.
const scored = (terms) => {
  const sums = new Map();
  for (const [, weight, ids] of terms) {
    for (const [id, score] of ids) sums.set(id, (sums.get(id) ?? 0) + weight * score);
  }
  return sums;
};

// The texts of an entry.
const PARTS_OF = { n: "note", t: "term" };
const show = async (id) => {
  const { chunks } = await get("search-index");
  const chunk = await get(`search/texts-${place(chunks, id)}`);
  const [first, url, page, text, parts, rank] = chunk[place(chunk.map(([first]) => first), id)];
  if (id === first) return { url, kind: "page", title: page, page: "", text, rank };
  const [anchor, under, title, sign] = parts[id - first - 1];
  const kind = PARTS_OF[sign] ?? (title ? "heading" : "definition");
  return { url: `${url}#${anchor}`, page, text: under, kind, title: title ?? anchor, rank };
};

// What is asked for, word by word, each as its terms: both of "fine-tune", and each pair of Chinese
// characters by itself. What holds the parts of a name such as FeedbackAttention holds the name.
const isCompound = ([name, ...parts]) => parts.length > 1 && name === parts.join("");
const wordsOf = (text) => {
  const wanted = text.replace(/square[ -]roots?( of)?\b/gi, "sqrt").split(/\s+/).flatMap((word) => {
    const found = terms(word);
    if (HAN.test(word)) return found.map((term) => [term]);
    return [isCompound(found) ? found.slice(1) : found];
  });
  return wanted.filter(({ length }) => length);
};
const telling = (words) => words.map((word) => word.filter((term) => !SMALL.has(term))).filter(({ length }) => length);

// What holds most of the words, and none that holds less than half of them; before all, what is
// called exactly so.
const query = async (text) => {
  if (!text.trim()) return [];
  const asked = wordsOf(text.replace(ASKED, " "));
  const all = asked.length ? asked : wordsOf(text);
  const words = telling(all).length ? telling(all) : all;
  const names = [...new Set([text, words.flat().join("")].map((name) => `=${spelt(name)}`))];
  // Who types MultiHeadAttention means the class rather than the page of that name.
  const compounds = text.split(/\s+/).map(terms).filter(isCompound).map(([name]) => name);
  const single = [...new Set([...words.flat(), ...compounds])];
  const [named, ...found] = await Promise.all([
    Promise.all(names.map((name) => shelf(name, 1))), ...single.map(meant),
  ]);
  const sums = new Map(single.map((term, n) => [term, scored(found[n])]));
  const share = (id) => words.filter((word) => word.every((term) => sums.get(term).has(id))).length / words.length;
  const total = (id) => share(id) ** 2 * [...sums.values()].reduce((score, sum) => score + (sum.get(id) ?? 0), 0);
  // What all of the text is the name of, before what its telling words are.
  const exact = new Map();
  for (const [n, name] of [...names.entries()].toReversed()) {
    const found = entries(named[n].find(([term]) => term === name) ?? [name, []]);
    for (const [id, score] of found) {
      const typed = n ? 1 : compounds.every((term) => sums.get(term).has(id)) ? 100 : 10;
      exact.set(id, typed * score);
    }
  }
  const any = [...new Set([...sums.values()].flatMap((sum) => [...sum.keys()]))];
  // Of two words both count, if anything holds both.
  const least = words.length < 3 && any.some((id) => share(id) === 1) ? 1 : 0.5;
  const best = any.filter((id) => share(id) >= least)
    .map((id) => [id, exact.get(id) ?? 0, total(id)])
    .sort((a, b) => b[1] - a[1] || b[2] - a[2] || a[0] - b[0])
    .slice(0, MOST);
  const marks = (id) => found.flat().filter(([, , ids]) => ids.has(id)).map(([term]) => term);
  return Promise.all(best.map(async ([id]) => ({ ...(await show(id)), exact: exact.has(id), terms: marks(id) })));
};

// The words of a text around the first that was found. It is cut between words or beside a Chinese
// character.
const excerpt = (text, words) => {
  const [most, before] = [EXCERPT, BEFORE].map((count) => (HAN.test(text) ? count / 2 : count));
  const found = words.length ? text.search(new RegExp(`(?:(?<![a-z0-9])|(?![a-z0-9]))(?:${words.join("|")})`, "i")) : 0;
  const start = found > most - before ? found - before : 0;
  const rest = text.slice(start, start + most);
  const begun = start ? rest.replace(new RegExp(`^(?:(?!${HAN.source})\\S){0,${before}}\\s*`, "u"), "… ") : rest;
  return start + most < text.length ? begun.replace(new RegExp(`(?:(?!${HAN.source})\\S)+$`, "u"), "") + "…" : begun;
};

// What is marked in a text: words, and pairs of Chinese characters wherever they stand, also where
// one overlaps the next. Terms are letters, digits and underscores, so none of them means anything
// to the pattern.
const marking = (words) => words.map((word) => {
  const [first, second] = HAN.test(word) ? word : [];
  return second ? `${first}(?=${second})|(?<=${first})${second}` : first ?? `${word}(?![a-z])`;
}).join("|");
