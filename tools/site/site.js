/* SPDX-License-Identifier: MIT */
/* site.js - the search and the button for light and dark. FOUND, of index.js, has [words, address, kind, what else]. */
"use strict";

const root = document.documentElement;
const up = document.body.dataset.up;
const input = document.getElementById("search");
const list = document.getElementById("found");
const MOST = 12;

document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try {
        localStorage.setItem("theme", root.dataset.theme);
    } catch (e) {
        /* it is forgotten with the page */
    }
});

/* How well an entry fits all words: a name that begins with one, has it, or a text that has it; 0: not at all. */
function fit(entry, words) {
    const name = entry[0].toLowerCase();
    const text = entry[3].toLowerCase();
    let sum = 0;
    for (const word of words) {
        const one = name === word ? 12 : name.startsWith(word) || name.startsWith("rdl_" + word) ? 8 :
            name.includes(word) ? 5 : text.includes(word) ? 1 : 0;
        if (one === 0)
            return 0;
        sum += one;
    }
    return sum - name.length / 200;
}

/* The text around the first word. */
function around(text, word) {
    const at = text.toLowerCase().indexOf(word);
    return at < 0 ? text.slice(0, 90) : (at > 40 ? "… " : "") + text.slice(Math.max(0, at - 40), at + 60);
}

function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(word => word);
    const best = words.length ? FOUND.map(entry => [fit(entry, words), entry]).filter(one => one[0] > 0)
        .sort((a, b) => b[0] - a[0]).slice(0, MOST) : [];
    list.replaceChildren(...best.map(([, entry]) => {
        const link = document.createElement("a");
        link.href = up + entry[1];
        const name = document.createElement("b");
        name.textContent = entry[0];
        const more = document.createElement("span");
        more.textContent = entry[2] === "page" ? around(entry[3], words[0]) : entry[2];
        link.append(name, more);
        const item = document.createElement("li");
        item.append(link);
        return item;
    }));
    list.hidden = best.length === 0;
}

input.addEventListener("input", search);
input.addEventListener("keydown", event => {
    if (event.key === "Enter" && list.firstChild)
        list.querySelector("a").click();
    if (event.key === "Escape") {
        input.value = "";
        search();
        input.blur();
    }
});
list.addEventListener("click", () => { list.hidden = true; });
document.addEventListener("keydown", event => {
    if (event.key === "/" && document.activeElement !== input) {
        event.preventDefault();
        input.focus();
    }
});

/* On a wide page the contents are open; on a narrow one behind a word. */
const sides = document.querySelector("#sides details");
const wide = matchMedia("(min-width: 60rem)");
const open = () => { sides.open = wide.matches; };
wide.addEventListener("change", open);
open();
const here = document.querySelector("#sides .here");
if (here && wide.matches && here.offsetTop > innerHeight * 0.6)
    document.getElementById("sides").scrollTop = here.offsetTop - innerHeight * 0.3;
