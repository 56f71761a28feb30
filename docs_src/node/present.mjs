// What a page needs of a formula, and no more.
//
// MathJax writes for scripts that explore a formula afterwards. A page of ours is read as it is,
// and holds a hundred formulas, so every element counts: one that only wraps another goes, and the
// attributes that nothing selects. `base.css` is written for what remains.

// Attributes of MathML that change what a formula means; the others only move it about.
const MEANING = new Set([
  "accent", "accentunder", "bevelled", "class", "close", "columnspan", "display", "intent",
  "linethickness", "mathvariant", "notation", "open", "rowspan",
]);
const INVISIBLE = /^[\u2061-\u2064]$/u;
// Elements of text, and elements that only group others.
const LETTERS = ["mjx-mi", "mjx-mo", "mjx-mn", "mjx-mtext", "mjx-ms"];
const GROUPS = ["mjx-TeXAtom", "mjx-mrow", "mjx-mstyle"];
const MATHML_GROUPS = ["TeXAtom", "mrow", "mstyle", "mpadded"];
const OPERATOR = 1;

// The formula as HTML: what is seen, hidden from screen readers, and MathML, which they read.
// The TeX stays in an attribute, for a script that copies it.
export function present(container, math, source, display) {
  const visible = container.children.flatMap(trim).map(write).join("");
  const mode = display ? ' display="true"' : "";
  const wide = container.attributes.width ? ` width="${escape(container.attributes.width)}"` : "";
  return `<mjx-container${mode}${wide} data-tex="${escape(source)}">${visible}` +
    `<mjx-assistive-mml>${mathml(math)}</mjx-assistive-mml></mjx-container>`;
}

const escape = (text) => String(text)
  .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

function write(node) {
  if (node.kind === "#text") return escape(node.value);
  const attributes = Object.entries(node.attributes)
    .map(([name, value]) => ` ${name}="${escape(value)}"`).join("");
  const kind = node.kind.toLowerCase();
  return `<${kind}${attributes}>${node.children.map(write).join("")}</${kind}>`;
}

// The nodes that stand for `node`: itself, its children, or nothing.
function trim(node) {
  if (node.kind === "#text") return [node];
  const { texclass, ...attributes } = node.attributes;
  const children = node.children.flatMap(trim);
  const plain = Object.keys(attributes).length === 0;
  if (LETTERS.includes(node.kind) && plain && children.every(isInvisible)) return [];
  if (GROUPS.includes(node.kind) && plain) return children;
  if (children.length === 1 && canMerge(node.kind, attributes, children[0])) {
    return [merge(attributes, children[0])];
  }
  if (node.kind === "mjx-math") attributes["aria-hidden"] = "true";
  return [{ kind: node.kind, attributes, children }];
}

// Such as the sign for "apply this function", which a voice reads and nobody sees.
const isInvisible = (node) => node.kind === "mjx-c" && INVISIBLE.test(node.children[0]?.value ?? "");

// Whether an element that holds a single one can hand it its attributes and go. Lengths are in em,
// so nothing that moves the outer one may land on an inner one with a size of its own.
function canMerge(kind, outer, child) {
  const letter = LETTERS.includes(kind) && child.kind === "mjx-c";
  const group = GROUPS.includes(kind) && child.kind.startsWith("mjx-") && kind !== "mjx-mtd";
  if (!letter && !group) return false;
  const names = Object.keys(outer).filter((name) => name !== "class");
  if (names.some((name) => name in child.attributes)) return false;
  if (/padding|width|display/.test(outer.style ?? "")) return false;
  return !("size" in child.attributes) || names.length === 0;
}

function merge(outer, child) {
  const classes = [outer.class, child.attributes.class].filter(Boolean).join(" ");
  const attributes = { ...outer, ...child.attributes };
  if (classes) attributes.class = classes;
  return { ...child, attributes };
}

// MathML of a formula, as plain as it can be: it is heard, never seen.
function mathml(node) {
  if (node.kind === "text") return escape(node.getText());
  if (node.kind === "XML") return "";
  const children = node.childNodes.filter(Boolean);
  if (node.kind === "TeXAtom" && node.texClass === OPERATOR) {
    const word = letters(children);
    if (word.length > 1) return `<mi${meaning(node)}>${escape(word)}</mi>`;
  }
  const inner = children.map(mathml).join("");
  if (node.isInferred) return inner;
  const kind = MATHML_GROUPS.includes(node.kind) ? "mrow" : node.kind;
  const attributes = meaning(node);
  if (kind === "mrow" && !attributes && elements(children) === 1) return inner;
  return `<${kind}${attributes}>${inner}</${kind}>`;
}

// `\\mathop{Attention}` is nine letters to TeX and one word to everybody else.
function letters(children) {
  const flat = children.flatMap((child) => (child.isInferred ? child.childNodes : [child]));
  const named = flat.every((child) => child.kind === "mi" && !child.attributes.hasExplicit("class"));
  return named ? flat.map((child) => child.getText()).join("") : "";
}

// How many elements the children are, once inferred rows are read as what they hold.
function elements(children) {
  return children.reduce((n, child) => n + (child.isInferred ? elements(child.childNodes) : 1), 0);
}

function meaning(node) {
  const explicit = node.attributes?.getAllAttributes() ?? {};
  return Object.entries(explicit)
    .filter(([name]) => MEANING.has(name))
    .map(([name, value]) => ` ${name}="${escape(value)}"`).join("");
}
