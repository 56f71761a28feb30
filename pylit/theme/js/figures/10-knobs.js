// Figures with knobs. Each of the functions in `draws` gets the data that the figure was drawn from,
// the values of its knobs, and a way to find elements by their `data-p`. It draws, and says in words
// what there is to see.
const { _ } = window.pylit;
const draws = {};
// A large number, as the language of the page writes it.
const grouped = (number) => number.toLocaleString(document.documentElement.lang);
const short = (number) => `${Math.round(number * 10) / 10}`;

window.pylit.knobs = (form) => {
  const data = JSON.parse(form.querySelector("script").textContent);
  const parts = (name) => [...form.parentElement.querySelectorAll(`[data-p="${name}"]`)];
  form.oninput = () => {
    const values = {};
    for (const input of form.querySelectorAll("input")) {
      values[input.name] = input.valueAsNumber;
      input.closest("p").querySelector("b").textContent = input.value;
    }
    form.querySelector("output").value = draws[form.dataset.demo](data, values, parts);
  };
  form.oninput();
};
