// What the reader chose: attributes of the page, which `base.html` sets before anything is painted. Where
// storage is forbidden, a choice is forgotten with the page. It may be made in another tab, too.
const choice = (name, values, show) => {
  const button = find(`#${name}-button`);
  const become = (value) => {
    root.dataset[name] = value;
    if (button) show(value, button);
  };
  button?.addEventListener("click", () => {
    const value = values[(values.indexOf(root.dataset[name]) + 1) % values.length];
    try { localStorage[`pylit-${name}`] = value } catch { /* forbidden */ }
    become(value);
  });
  addEventListener("storage", ({ key, newValue }) => {
    if (key === `pylit-${name}`) become(newValue ?? "");
  });
  become(root.dataset[name] ?? "");
};

// Light, dark, or as the system has it; the style sheet does the rest.
const barColors = findAll("meta[name=theme-color]").map((meta) => [meta, meta.content]);
choice("theme", ["", "light", "dark"], (theme, button) => {
  const names = { light: _("Theme: light"), dark: _("Theme: dark") };
  button.ariaLabel = button.title = names[theme] ?? _("Theme: as the system");
  for (const [meta, own] of barColors) meta.content = barColors[["light", "dark"].indexOf(theme)]?.[1] ?? own;
});
// Shapes at the ends of lines, lines of code that wrap, and shortcuts of a single key.
choice("shapes", ["", "off"], (value, button) => { button.ariaPressed = `${value !== "off"}` });
choice("wrap", ["", "off"], (value, button) => { button.ariaPressed = `${value !== "off"}` });
choice("keys", ["", "off"], (value, button) => { button.checked = value !== "off" });
