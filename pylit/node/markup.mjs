// Elements as plain objects, `{kind, attributes, children}`, and text as `{kind: "#text", value}`:
// the form that MathJax's light DOM uses too.

export const text = (value) => ({ kind: "#text", value });
export const element = (kind, attributes, children) => ({ kind, attributes, children });

export function write(node) {
  if (node.kind === "#text") return escape(node.value);
  const attributes = Object.entries(node.attributes).map(writeAttribute).join("");
  const kind = node.kind.toLowerCase();
  return `<${kind}${attributes}>${node.children.map(write).join("")}</${kind}>`;
}

function writeAttribute([name, value]) {
  const written = name === "style" ? style(value) : value;
  return written === undefined || written === "" ? "" : ` ${name}="${escape(written)}"`;
}

// Declarations without spaces. MathJax leaves some lengths open, such as the height of a row with a
// tag, and writes them all the same; browsers skip what is not a length.
function style(value) {
  return value?.split(";").map((part) => part.trim().replace(/: /, ":"))
    .filter((part) => part && !/NaN|undefined/.test(part)).join(";");
}

const escape = (value) => String(value)
  .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
