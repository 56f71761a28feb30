// What the scripts of a page share.
const root = document.documentElement;
const here = new URL(".", document.currentScript.src);
const find = (selector) => document.querySelector(selector);
const findAll = (selector) => [...document.querySelectorAll(selector)];

// What the reader chose. Where storage is forbidden, it is forgotten with the page.
const settings = {
  get(name) {
    try { return localStorage.getItem(`pylit-${name}`) ?? "" } catch { return "" }
  },
  set(name, value) {
    try { localStorage.setItem(`pylit-${name}`, value) } catch { /* forbidden */ }
  },
};

// Scripts that only some readers need are loaded when they do, once. `pylit` is how they meet.
const loading = new Map();
const load = (name) => {
  if (!loading.has(name)) {
    loading.set(name, new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, { src: new URL(name, here), onload: resolve, onerror: reject });
      document.head.append(script);
    }));
  }
  return loading.get(name);
};
window.pylit = { site: new URL("..", here), load };
