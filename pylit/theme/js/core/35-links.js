// Every heading and every definition has a link to itself, seen on hover and focus.
for (const target of findAll(".d :is(h2, h3, h4)[id], .c code[id]")) {
  const code = target.matches("code");
  const link = make("a", {
    className: "self",
    href: `#${target.id}`,
    textContent: "#",
    ariaLabel: code ? `Link to ${target.id}` : "Link to this section",
  });
  target[code ? "prepend" : "append"](link);
}
