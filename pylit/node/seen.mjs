// The half of a formula that is seen, with as few elements as it can do with.
//
// MathJax writes for scripts that explore a formula afterwards. A page of ours is read as it is and
// holds a hundred formulas, so an element that only wraps another goes: a letter needs one element
// instead of two, a group needs none. Nothing moves by it; a test compares the two in a browser.

const LETTERS = ["mjx-mi", "mjx-mo", "mjx-mn", "mjx-mtext", "mjx-ms"];
const GROUPS = ["mjx-TeXAtom", "mjx-mrow", "mjx-mstyle"];
// Such as the sign for "apply this function", which a voice reads and nobody sees.
const INVISIBLE = /^[\u2061-\u2064]$/u;

// The nodes that stand for `node`: itself, its children, or none.
export function seen(node) {
  if (node.kind === "#text") return [node];
  const { texclass, ...attributes } = node.attributes;
  const children = node.children.flatMap(seen);
  const plain = Object.keys(attributes).length === 0;
  if (plain && LETTERS.includes(node.kind) && children.every(isInvisible)) return [];
  if (plain && GROUPS.includes(node.kind) && children.length > 0) return children;
  if (children.length === 1 && canMerge(node.kind, attributes, children[0])) {
    return [merge(attributes, children[0])];
  }
  return [{ kind: node.kind, attributes, children }];
}

const isInvisible = (node) => node.kind === "mjx-c" && INVISIBLE.test(node.children[0]?.value ?? "");

// Whether an element that holds a single one can hand it its attributes and go.
function canMerge(kind, outer, child) {
  const letter = LETTERS.includes(kind) && child.kind === "mjx-c";
  // The rules for a table look at the group around it.
  const group = GROUPS.includes(kind) && child.kind.startsWith("mjx-") && child.kind !== "mjx-mtable";
  if (!letter && !group) return false;
  const names = Object.keys(outer).filter((name) => name !== "class");
  if (names.some((name) => name in child.attributes)) return false;
  if (/padding|width|display/.test(outer.style ?? "")) return false;
  // Lengths are in em: what moves the outer element must not land on one with a size of its own.
  return !("size" in child.attributes) || names.length === 0;
}

function merge(outer, child) {
  const classes = [outer.class, child.attributes.class].filter(Boolean).join(" ");
  const attributes = { ...outer, ...child.attributes };
  if (classes) attributes.class = classes;
  return { ...child, attributes };
}
