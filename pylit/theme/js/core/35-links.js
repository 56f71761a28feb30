// Every heading and every definition has a link to itself, seen on hover and focus.
const definitions = findAll(".c code[id]").filter((code) => !code.closest(".fence"));
for (const target of [...findAll(".d :is(h2, h3, h4)[id]"), ...definitions]) {
  const link = Object.assign(document.createElement("a"), { className: "self", textContent: "#" });
  link.href = `#${target.id}`;
  link.ariaLabel = target.matches("code") ? `Link to ${target.id}` : "Link to this section";
  if (target.matches("code")) target.prepend(link);
  else target.append(link);
}
