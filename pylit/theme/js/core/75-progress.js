// Which parts of the pages of a reading path were read. It is kept in this browser and nowhere else, by addresses
// that all languages share: the parts as bits, their number, and the anchor of the first that is not read.
const { site } = window.pylit;
const placeOf = ({ pathname }) => pathname.slice(site.pathname.length).replace(edition ?? "", "").replace(/(^|\/)$/, "$1index.html");
const progress = window.pylit.progress = {
  key: `pylit-parts ${site.pathname}`,
  placeOf,
  read() {
    try { return JSON.parse(localStorage[progress.key] ?? "{}") } catch { return {} }
  },
};

// A part is read when its end has come into sight. A link that leads to the next part brings it to the top of the
// window, and does not count.
if (find(".count")) {
  const anchors = findAll(".kicker a").map((link) => link.hash).slice(1);
  const ends = [...anchors.map((hash) => targetOf({ hash })), find(".share")];
  const watch = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting, boundingClientRect } of changes) {
      if (!isIntersecting || boundingClientRect.top < 120) continue;
      watch.unobserve(target);
      const { [placeOf(location)]: [done] = [0], ...others } = progress.read();
      const now = done | (1 << ends.indexOf(target));
      const rest = ends.findIndex((_end, part) => !(now & (1 << part)));
      const found = { ...others, [placeOf(location)]: [now, ends.length, anchors[rest - 1] ?? ""] };
      try { localStorage[progress.key] = JSON.stringify(found) } catch { /* forbidden */ }
    }
  });
  ends.forEach((end) => watch.observe(end));
}
const menu = find("#menu");
const mark = () => {
  if (Object.keys(progress.read()).length) load("path.js").then(() => progress.mark(), () => {});
};
menu?.addEventListener("beforetoggle", mark);
if (find(".cards")) mark();
