// What the scripts of a page share.
const root = document.documentElement;
const here = new URL(".", document.currentScript.src);
const find = (selector) => document.querySelector(selector);
const findAll = (selector) => [...document.querySelectorAll(selector)];
const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
const onPoint = ["pointerover", "focusin"];

// Scripts that only some readers need are loaded when they do, once. `pylit` is how they meet.
const loading = {};
const load = (name) => loading[name] ??= new Promise((onload, onerror) => {
  document.head.append(make("script", { src: new URL(name, here), onload, onerror }));
});
// Where the page is in another language, a script before this one has the words of that language.
const _ = (text, ...values) => (window.pylitWords?.[text] ?? text).replace(/\{(\d)}/g, (found, n) => values[n]);
window.pylit = { site: new URL("..", here), load, _ };
