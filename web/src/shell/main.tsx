/** Starts the studio: a session with the server that gave this page, and the window. */

import { render } from "preact";
import { Session } from "../project/session";
import { App } from "./app";
import { makeStudio, type Studio } from "./context";
import "./studio.css";

declare global {
  interface Window {
    mareyStudio?: Studio;
  }
}

// Tools with handles or panel parts of their own; all others are drawn from the registry alone
import.meta.glob("../tools/*/*.tsx", { eager: true });
// The token has become a cookie: it need not stay in the address
if (location.search !== "") history.replaceState(null, "", location.pathname);
const address = new URL("ws", location.href);
address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
address.search = "";
const studio = makeStudio(new Session(() => new WebSocket(address)));
window.mareyStudio = studio; // for tests, and for curious users
render(<App studio={studio} />, document.getElementById("app")!);
