// Two switches: shapes at the ends of lines, and lines of code that wrap. Each is remembered.
const makeSwitch = (name, isOn, on, off) => {
  const button = find(`#${name}-button`);
  const show = (choice) => {
    root.dataset[name] = choice;
    if (button) button.ariaPressed = `${isOn(choice)}`;
  };
  const turn = () => {
    if (!button) return;
    const choice = isOn(root.dataset[name]) ? off : on;
    settings.set(name, choice);
    show(choice);
  };
  button?.addEventListener("click", turn);
  addEventListener("storage", (event) => {
    if (event.key === `pylit-${name}`) show(event.newValue ?? "");
  });
  show(root.dataset[name] ?? "");
  return turn;
};
const switchShapes = makeSwitch("shapes", (choice) => choice !== "off", "", "off");
const switchWrap = makeSwitch("wrap", (choice) => choice === "on", "on", "");
