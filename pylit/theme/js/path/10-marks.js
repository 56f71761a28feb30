// What was read, told in the menu, on the cards of the home page, and by its first button.
const { progress, _ } = window.pylit;
const links = [...document.querySelectorAll("#menu ol a, .cards h3 a")];
const start = document.querySelector("#start");
const begin = start && [start.href, start.innerHTML];
const forget = document.querySelector("#forget");
const bits = (number) => (number ? (number & 1) + bits(number >> 1) : 0);

progress.mark = () => {
  const read = progress.read();
  const places = Object.keys(read);
  const whole = (place) => read[place] && bits(read[place][0]) === read[place][1];
  for (const link of links) {
    link.parentElement.querySelector(".read")?.remove();
    const place = progress.placeOf(link);
    if (!read[place]) continue;
    const [done, parts] = read[place];
    const said = whole(place) ? _("finished") : _("{0} of {1} read", bits(done), parts);
    link.after(Object.assign(document.createElement("small"), { className: "read", textContent: said }));
  }
  forget.hidden = !places.length;
  if (!start) return;
  // Where the reader was last; from a page that is read whole, to the next one that is not.
  const order = links.filter((link) => link.closest(".cards"));
  const last = order.findIndex((link) => progress.placeOf(link) === places.at(-1));
  const next = order.slice(Math.max(last, 0)).find((link) => !whole(progress.placeOf(link)));
  [start.href, start.innerHTML] = begin;
  if (last < 0 || !next) return;
  start.href = next.href + (read[progress.placeOf(next)]?.[2] ?? "");
  start.textContent = _("Go on: {0}", next.textContent);
};

forget.onclick = () => {
  localStorage.removeItem(progress.key);
  progress.mark();
};
