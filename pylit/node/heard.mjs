// The half of a formula that is heard: MathML for screen readers, as plain as it can be.

import { element, text } from "./markup.mjs";

// Attributes that change what a formula means; the others only move it about.
const MEANING = [
  "accent", "accentunder", "bevelled", "class", "close", "columnspan", "display", "intent",
  "linethickness", "mathvariant", "notation", "open", "rowspan",
];
// Letter shapes that MathML knows; MathJax has more of its own.
const VARIANT = /^(?:normal|bold|italic|bold-italic|double-struck|bold-fraktur|script|bold-script|fraktur|sans-serif|bold-sans-serif|sans-serif-italic|sans-serif-bold-italic|monospace)$/;
const CALLIGRAPHIC = /^-tex-(bold-)?calligraphic$/;
// What only groups, and what holds any number of parts side by side.
const GROUPS = ["TeXAtom", "mrow", "mstyle", "mpadded"];
const ROWS = [...GROUPS, "math", "mtd", "msqrt", "mphantom", "menclose", "merror"];
const OPERATOR = 1;

export function heard(node) {
  if (node.kind === "text") return text(node.getText());
  const attributes = meaning(node);
  const word = operatorName(node);
  if (word) return element("mi", attributes, [text(word)]);
  if (node.isInferred || ROWS.includes(node.kind)) {
    const parts = row(node).map(heard).filter((part) => !isEmpty(part));
    if (!node.isInferred && !GROUPS.includes(node.kind)) return element(node.kind, attributes, parts);
    return parts.length === 1 && !attributes.class ? parts[0] : element("mrow", attributes, parts);
  }
  const children = node.childNodes.filter(Boolean).map(heard);
  // A row with a number exists in MathML 3 only, and would be read number first.
  if (node.kind !== "mlabeledtr") return element(node.kind, attributes, children);
  return element("mtr", attributes, [...children.slice(1), children[0]]);
}

// What stands side by side in a node, rows without a mark of their own dissolved.
function row(node) {
  return node.childNodes.flatMap((child) => {
    if (!child) return [];
    const plain = !child.attributes?.hasExplicit("class") && !operatorName(child);
    return child.isInferred || (plain && GROUPS.includes(child.kind)) ? row(child) : [child];
  });
}

const isEmpty = (part) => ["mrow", "mi", "mspace"].includes(part.kind) && part.children.length === 0;

// `\mathop{Attention}` is nine letters to TeX and one word to everybody else.
function operatorName(node) {
  if (node.kind !== "TeXAtom" || node.texClass !== OPERATOR) return "";
  const letters = row(node);
  const named = letters.every((child) => child.kind === "mi" && !child.attributes.hasExplicit("class"));
  return named && letters.length > 1 ? letters.map((child) => child.getText()).join("") : "";
}

function meaning(node) {
  const kept = {};
  for (const [name, value] of Object.entries(node.attributes?.getAllAttributes() ?? {})) {
    if (!MEANING.includes(name)) continue;
    if (name !== "mathvariant" || VARIANT.test(value)) kept[name] = value;
    else if (CALLIGRAPHIC.test(value)) kept[name] = "script";
  }
  return kept;
}
