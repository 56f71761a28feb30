// What the scripts of a page share.
const root = document.documentElement;
const here = new URL(".", document.currentScript.src);
const find = (selector) => document.querySelector(selector);
const findAll = (selector) => [...document.querySelectorAll(selector)];
const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
const onPoint = ["pointerover", "focusin"];

// Where the page is in another language, there are words before this script. Words that are missing
// stay English.
const { edition } = root.dataset;
const _ = (text, ...values) => (window.pylitWords?.[text] ?? text).replace(/\{(\d)}/g, (found, n) => values[n]);

// Scripts that only some readers need are loaded when they do, once, after the words that they say.
// `pylit` is how they meet.
const loading = {};
const fetched = (name) => loading[name] ??= new Promise((onload, onerror) => {
  document.head.append(make("script", { src: new URL(name, here), onload, onerror }));
});
const load = async (name) => {
  if (edition) await fetched(`${edition}words.js`).catch(() => {});
  return fetched(name);
};
window.pylit = { site: new URL("..", here), load, _, visited: [] };

// The pages that were read last, for the search. They are kept in this browser and nowhere else.
try {
  const name = `pylit-read ${window.pylit.site.pathname}${edition ?? ""}`;
  const url = location.pathname.slice(window.pylit.site.pathname.length);
  const before = JSON.parse(localStorage[name] ?? "[]").filter(([other]) => other !== url);
  window.pylit.visited = before.slice(0, 3);
  const title = find("h1")?.textContent.trim();
  if (title && find(".s")) localStorage[name] = JSON.stringify([[url, title], ...before].slice(0, 4));
} catch { /* forbidden */ }
