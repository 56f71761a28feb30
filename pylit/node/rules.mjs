// Style rules as short text, each led by a digit that says how general it is: the generator sorts
// the rules of all formulas by it, so that the sheet does not depend on their order.
//
//   0  no rule: a character that the fonts must hold
//   1  how a kind of element is laid out (fractions, scripts, tables)
//   2  a font, and the class that selects it
//   3  the size of one character in one font

import { StyleJsonSheet } from "@mathjax/src/js/util/StyleJson.js";

import { write } from "./markup.mjs";

// Font classes: `NCM-` and the letters that also name the file.
const FONT_CLASS = /\bNCM-[A-Za-z0-9-]+/g;
// Text is in the font `N`. Before any other stands one without height, which keeps the height of a
// line independent of the fonts that a browser falls back on.
const ZERO = "MJX-NCM-ZERO";
const TEXT = "MJX-NCM-N";
// A space of no width at which a line may break.
const BREAK = "MJX-BRK";

const layouts = new Map();

// The rules for the formula that `output` has just typeset, shown by the elements `visible`.
export function styleRules(output, visible) {
  const written = [...new Set(textOf(visible))].map((character) => "0" + character);
  const kinds = output.wrapperUsage.update().map((kind) => layout(output, kind));
  const characters = Object.entries(output.font.updateStyles({}))
    .map(([selector, declarations]) => "3" + rule(selector, declarations));
  return [...written, ...kinds.filter(Boolean), ...fontRules(write(visible)), ...characters];
}

function textOf(node) {
  return node.kind === "#text" ? node.value : node.children.map(textOf).join("");
}

// How MathJax lays out one kind of element; the same for every formula.
function layout(output, kind) {
  if (!layouts.has(kind)) {
    const wrapper = output.factory.getNodeClass(kind);
    const sheet = new StyleJsonSheet();
    if (wrapper) output.addClassStyles(wrapper, sheet);
    const rules = Object.entries(sheet.styles).map(([name, value]) => rule(name, value)).join("");
    layouts.set(kind, rules && "1" + rules);
  }
  return layouts.get(kind);
}

function fontRules(html) {
  const rules = [fontFace(ZERO), fontFace(TEXT) + `mjx-math{font-family:${ZERO},${TEXT}}`];
  if (html.includes("<mjx-break")) rules.push(fontFace(BREAK));
  for (const name of new Set(html.match(FONT_CLASS))) {
    rules.push(fontFace(`MJX-${name}`) + `.${name}{font-family:${ZERO},MJX-${name}}`);
  }
  return rules.map((text) => "2" + text);
}

function fontFace(family) {
  const file = family.toLowerCase().replace(/^mjx-(?:ncm-)?/, "mjx-ncm-");
  const source = `url(fonts/${file}.woff2) format("woff2")`;
  return `@font-face{font-family:${family};src:${source}}`;
}

function rule(selector, declarations) {
  const name = selector.replaceAll('[jax="CHTML"]', "").replace(/, | (>) /g, (gap) => gap.trim());
  const body = Object.entries(declarations)
    .map(([property, value]) => `${property}:${String(value).replace(" !", "!").replace("! ", "!")}`);
  return `${name}{${body.join(";")}}`;
}
