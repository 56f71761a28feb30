// Shapes at the ends of lines: shown, unless the reader has switched them off.
const shapesButton = find("#shapes-button");

const showShapes = (choice) => {
  root.dataset.shapes = choice;
  if (shapesButton) shapesButton.ariaPressed = `${choice !== "off"}`;
};
const switchShapes = () => {
  if (!shapesButton) return;
  const choice = root.dataset.shapes === "off" ? "" : "off";
  settings.set("shapes", choice);
  showShapes(choice);
};
shapesButton?.addEventListener("click", switchShapes);
addEventListener("storage", (event) => {
  if (event.key === "pylit-shapes") showShapes(event.newValue ?? "");
});
showShapes(root.dataset.shapes);
