// TeX in, HTML out: MathJax set up once, for formulas that know nothing of one another.
//
// A formula's result depends on its TeX alone, never on those before it. That is what allows the
// generator to cache results, and to split the work over processes. So definitions do not outlive
// the formula that makes them, equations are not numbered, and the style rules a formula needs are
// told with it instead of being gathered in one sheet.

import { RegisterHTMLHandler } from "@mathjax/src/js/handlers/html.js";
import { liteAdaptor } from "@mathjax/src/js/adaptors/liteAdaptor.js";
import { mathjax } from "@mathjax/src/js/mathjax.js";
import { MapHandler } from "@mathjax/src/js/input/tex/MapHandler.js";
import TexError from "@mathjax/src/js/input/tex/TexError.js";
import { TeX } from "@mathjax/src/js/input/tex.js";
import { CHTML } from "@mathjax/src/js/output/chtml.js";
import { SafeHandler } from "@mathjax/src/js/ui/safe/SafeHandler.js";
import { StyleJsonSheet } from "@mathjax/src/js/util/StyleJson.js";
import { MathJaxNewcmFont } from "@mathjax/mathjax-newcm-font/js/chtml.js";
import "@mathjax/src/js/util/asyncLoad/esm.js";

import "@mathjax/src/js/input/tex/ams/AmsConfiguration.js";
import "@mathjax/src/js/input/tex/amscd/AmsCdConfiguration.js";
import "@mathjax/src/js/input/tex/bbox/BboxConfiguration.js";
import "@mathjax/src/js/input/tex/boldsymbol/BoldsymbolConfiguration.js";
import "@mathjax/src/js/input/tex/braket/BraketConfiguration.js";
import "@mathjax/src/js/input/tex/cancel/CancelConfiguration.js";
import "@mathjax/src/js/input/tex/cases/CasesConfiguration.js";
import "@mathjax/src/js/input/tex/centernot/CenternotConfiguration.js";
import "@mathjax/src/js/input/tex/color/ColorConfiguration.js";
import "@mathjax/src/js/input/tex/configmacros/ConfigMacrosConfiguration.js";
import "@mathjax/src/js/input/tex/empheq/EmpheqConfiguration.js";
import "@mathjax/src/js/input/tex/enclose/EncloseConfiguration.js";
import "@mathjax/src/js/input/tex/extpfeil/ExtpfeilConfiguration.js";
import "@mathjax/src/js/input/tex/gensymb/GensymbConfiguration.js";
import "@mathjax/src/js/input/tex/html/HtmlConfiguration.js";
import "@mathjax/src/js/input/tex/mathtools/MathtoolsConfiguration.js";
import "@mathjax/src/js/input/tex/newcommand/NewcommandConfiguration.js";
import "@mathjax/src/js/input/tex/textcomp/TextcompConfiguration.js";
import "@mathjax/src/js/input/tex/textmacros/TextMacrosConfiguration.js";
import "@mathjax/src/js/input/tex/unicode/UnicodeConfiguration.js";
import "@mathjax/src/js/input/tex/units/UnitsConfiguration.js";
import "@mathjax/src/js/input/tex/upgreek/UpgreekConfiguration.js";
import "@mathjax/src/js/input/tex/verb/VerbConfiguration.js";

import { heard } from "./heard.mjs";
import { errorOffset } from "./locate.mjs";
import { element, write } from "./markup.mjs";
import { styleRules } from "./rules.mjs";
import { seen } from "./seen.mjs";

// Not among them: `noundefined` and `noerrors`, which would hide mistakes; `physics`, which gives
// new meanings to standard commands; `require` and `autoload`, which fetch files; `action`, which
// needs scripts in the page.
const PACKAGES = [
  "base", "ams", "amscd", "bbox", "boldsymbol", "braket", "cancel", "cases", "centernot",
  "color", "configmacros", "empheq", "enclose", "extpfeil", "gensymb", "html",
  "mathtools", "newcommand", "textcomp", "textmacros", "unicode", "units", "upgreek", "verb",
];

// Commands that reach out of their formula: colours for later ones, and links, which must not
// stand in the visible half of a formula, because screen readers skip it.
const REMOVED = { color: ["definecolor"], html_macros: ["href"] };

// Packages that people load for one command each, by what they give.
const COMMON = {
  bm: ["\\boldsymbol{#1}", 1],
  mathbbm: ["\\mathbb{#1}", 1],
  mathds: ["\\mathbb{#1}", 1],
};

// The classes that mark symbols, `\class{y1}{Q}`, some with the tone of their role, `\class{y1 t3}{Q}`. No
// other can be given: a class might name one of MathJax's fonts, or a style of the page.
const MARK = /^y\d+( t[0-6])?$/;
const CLASS = /^(y\d+|t[0-6])$/;

// Where \newcommand and its kin put what they define.
const DEFINITIONS = ["new-Command", "new-Delimiter", "new-Environment"];

// A typesetter that is used for one formula after the other.
export function typesetter() {
  const adaptor = liteAdaptor();
  const handler = SafeHandler(RegisterHTMLHandler(adaptor));
  const tex = new TeX({
    packages: PACKAGES,
    macros: COMMON,
    formatError: (_jax, error) => { throw error; },
  });
  let compiled = null;
  tex.postFilters.add(({ data }) => {
    compiled = data.root;
    compiled.walkTree(dropSource);
  });
  const output = new CHTML({ fontData: MathJaxNewcmFont });
  const page = mathjax.document("", {
    InputJax: tex,
    OutputJax: output,
    safeOptions: {
      allow: { URLs: "none", classes: "safe", cssIDs: "none", styles: "safe" },
      classPattern: CLASS,
    },
  });
  mathjax.handlers.unregister(handler);
  for (const [map, names] of Object.entries(REMOVED)) {
    for (const name of names) MapHandler.getMap(map).remove(name);
  }

  // One formula: `{html, css}`, or `{error, offset}` when it is not valid TeX.
  return async function typeset(source, display) {
    for (const name of DEFINITIONS) MapHandler.getMap(name).map.clear();
    tex.reset();
    output.clearCache();
    let container;
    try {
      container = await page.convertPromise(source, { display });
    } catch (error) {
      if (error instanceof TexError) {
        return { error: error.message, offset: errorOffset(error, source) };
      }
      // MathJax itself failed: a formula nested too deeply, or a character that does not exist.
      const why = error instanceof RangeError && error.message.startsWith("Maximum call stack")
        ? "nested too deeply" : error.message;
      return { error: `MathJax cannot typeset it: ${why}`, offset: 0, broken: true };
    }
    const visible = shown(container);
    compiled.walkTree(dropMark);
    const html = write(present(container, visible, compiled, source));
    return { html, css: styleRules(output, visible) };
  };
}

function shown(container) {
  const [visible] = seen(container.children[0]);
  delete visible.attributes.class;
  visible.attributes["aria-hidden"] = "true";
  return visible;
}

// The formula as HTML: what is seen, hidden from screen readers, and MathML, which they read. The TeX
// stays in an attribute, for a script that copies it.
function present(container, visible, math, source) {
  const { display, width, justify } = container.attributes;
  const style = container.attributes.style?.replace("position: relative;", "");
  return element("mjx-container", { display, width, justify, style, "data-tex": source }, [
    visible,
    heard(math),
  ]);
}

// Marks of symbols are for eyes only: what is heard is as if they were not there.
function dropMark(node) {
  if (MARK.test(node.attributes?.getExplicit("class"))) node.attributes.unset("class");
}

// MathJax repeats the TeX of every part of a formula in attributes; nothing of ours reads them.
function dropSource(node) {
  node.attributes?.unset("data-latex");
  node.attributes?.unset("data-latex-item");
}
