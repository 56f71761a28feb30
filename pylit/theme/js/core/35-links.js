// The page in another language opens where the reader is.
for (const link of findAll(".bar a[hreflang]")) link.onclick = () => { link.hash = entry?.hash || location.hash };
const report = find("#report");
// Every heading and every definition has a link to itself, seen on hover and focus.
for (const target of findAll(".d :is(h2, h3, h4)[id], .c code[id]")) {
  const code = target.matches("code");
  const link = make("a", {
    className: "self",
    href: `#${target.id}`,
    textContent: "#",
    ariaLabel: code ? _("Link to {0}", target.id) : _("Link to this section"),
  });
  target[code ? "prepend" : "append"](link);
  if (!report || code) continue;
  // An error in this very note is reported with its address.
  target.append(make("a", {
    className: "self",
    href: `${report.href}&body=${encodeURIComponent(link.href)}`,
    textContent: "✎",
    title: _("Report a mistake"),
    ariaLabel: _("Report a mistake"),
  }));
}
