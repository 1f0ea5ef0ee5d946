/** Starts the player of a page that `marey.picture.save_page` wrote. */

import { decodeNumbers, readPage, type PageHeader } from "./clip";
import { Player } from "./player";
import css from "./viewer.css?inline";

declare global {
  interface Window {
    mareyPlayer?: Player;
  }
}

const style = document.createElement("style");
style.textContent = css;
document.head.append(style);

const host = document.getElementById("marey-player");
const header = document.getElementById("marey-header");
const numbers = document.getElementById("marey-numbers");
if (host !== null && header !== null && numbers !== null) {
  try {
    const page = readPage(JSON.parse(header.textContent!) as PageHeader, decodeNumbers(numbers.textContent!));
    numbers.remove(); // the numbers live in typed arrays now
    window.mareyPlayer = new Player(host, page);
    host.focus();
  } catch (error) {
    host.textContent = `This motion cannot be played: ${error instanceof Error ? error.message : String(error)}.`;
  }
}
