/** The player: bodies on a stage, a timeline, buttons and keys. It needs no server. */

import * as THREE from "three";
import { clipRows, DARK, LIGHT, Timeline } from "../timeline";
import { Body, PALETTES } from "./body";
import type { Page } from "./clip";
import { Clock, SPEEDS } from "./clock";
import { Stage, type View } from "./stage";

const ASIDE_M = 1.6; // between bodies that are shown side by side
const TIMELINE_KEYS = /^(arrow(left|right)|home|end|[iox])$/i;
const HELP: [string, string][] = [
  ["Space", "play, pause"],
  ["J K L", "backwards, pause, forwards"],
  ["← →", "one frame (with Shift ten)"],
  ["Home End", "start, end"],
  ["I O X", "range from here, to here, none"],
  ["1 3 7 0", "front, side, top, free view"],
  ["F", "camera follows"],
  ["S", "side by side, or all in one place"],
  ["wheel", "on the timeline: zoom; with Shift: move"],
];

export class Player {
  private readonly clock: Clock;
  private readonly stage: Stage;
  private readonly timeline: Timeline;
  private readonly bodies: Body[];
  private readonly facts: HTMLElement;
  private readonly readout: HTMLOutputElement;
  private readonly buttons = new Map<string, HTMLButtonElement>();
  private isFollowing = true;
  private isApart: boolean;
  private lastS = 0;
  private readonly root = new THREE.Vector3();
  private readonly shift = new THREE.Vector3();

  constructor(
    private readonly host: HTMLElement,
    private readonly page: Page,
  ) {
    host.classList.add("marey");
    host.tabIndex = 0;
    host.innerHTML = `
      <div class="stage" role="img"></div><aside class="facts"></aside>
      <div class="bar" role="toolbar" aria-label="Player"></div>
      <div class="time"></div>
      <dialog class="help"><table></table><form method="dialog"><button>Close</button></form></dialog>`;
    const find = <T extends HTMLElement>(selector: string): T => host.querySelector<T>(selector)!;
    const clips = page.clips;
    this.isApart = clips.length > 1;
    this.clock = new Clock(Math.max(0, ...clips.map((clip) => clip.durationS)));
    this.stage = new Stage(find(".stage"), page);
    find(".stage").setAttribute("aria-label", `${page.title}: ${clips.map((clip) => clip.name).join(", ")}`);
    this.bodies = clips.map((clip, index) => new Body(clip, PALETTES[index % PALETTES.length], { skin: clip.skin }));
    for (const body of this.bodies) this.stage.scene.add(body.mesh);
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    // The studio's timeline; without events for edits it only reads
    const events = {
      onScrub: (timeS: number) => {
        this.clock.isPlaying = false;
        this.clock.seek(timeS);
      },
      onRange: (range: [number, number] | null) => (this.clock.range = range),
    };
    this.timeline = new Timeline(find(".time"), events, () => (dark.matches ? DARK : LIGHT));
    this.timeline.set({
      durationS: this.clock.durationS,
      rateHz: clips[0]?.rateHz ?? 60,
      rows: clips.flatMap((clip, index) => clipRows(clip, clips.length > 1 ? clip.name : "", String(index))),
    });
    find(".time").style.height = `${this.timeline.layout.totalPx}px`;
    this.facts = find(".facts");
    this.readout = document.createElement("output");
    this.buildBar(find(".bar"));
    this.fillFacts();
    fillTable(find(".help table"), HELP);
    this.stage.applyTheme(dark.matches);
    dark.addEventListener("change", () => {
      this.stage.applyTheme(dark.matches);
      this.timeline.set({});
    });
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) this.clock.isPlaying = false;
    host.addEventListener("keydown", (event) => this.press(event));
    this.show();
    this.look("free");
    this.lastS = performance.now() / 1000;
    this.stage.renderer.setAnimationLoop(() => this.tick());
  }

  /** State that tests and embedding pages read. */
  get state(): { timeS: number; isPlaying: boolean; durationS: number; joints: Float32Array[] } {
    const { timeS, isPlaying, durationS } = this.clock;
    return { timeS, isPlaying, durationS, joints: this.bodies.map((body) => body.pose.positions) };
  }

  seek(timeS: number): void {
    this.clock.isPlaying = false;
    this.clock.seek(timeS);
    this.show();
  }

  dispose(): void {
    for (const body of this.bodies) body.dispose();
    this.timeline.dispose();
    this.stage.dispose();
    this.host.replaceChildren();
  }

  private tick(): void {
    const nowS = performance.now() / 1000;
    this.clock.advance(Math.min(nowS - this.lastS, 0.25)); // a hidden page does not catch up
    this.lastS = nowS;
    this.show();
    this.stage.render();
  }

  private show(): void {
    const { timeS } = this.clock;
    this.bodies.forEach((body, index) => {
      this.shift.set(this.isApart ? (index - (this.bodies.length - 1) / 2) * ASIDE_M : 0, 0, 0);
      body.show(timeS, this.shift);
    });
    if (this.bodies.length > 0) {
      this.bodies[0].rootPosition(this.root);
      if (this.isApart) this.root.x = this.bodies.reduce((sum, body) => sum + body.pose.positions[0], 0) / this.bodies.length;
      this.stage.follow(this.root, this.isFollowing);
    }
    this.timeline.set({ playheadS: timeS, rangeS: this.clock.range });
    const frame = Math.round(timeS * (this.page.clips[0]?.rateHz ?? 1));
    this.readout.value = `${timeS.toFixed(2)} s · frame ${frame}`;
    this.buttons.get("play")!.textContent = this.clock.isPlaying ? "Pause" : "Play";
  }

  private look(view: View): void {
    const body = this.bodies[0];
    if (body === undefined) return;
    const size = Math.max(0.5, ...this.bodies.map(bodySize)) + (this.isApart ? (this.bodies.length - 1) * ASIDE_M : 0);
    const at = this.root.clone();
    at.y = this.page.groundM + 0.5 * bodySize(body);
    this.stage.look(view, at, body.heading(), size);
  }

  private buildBar(bar: HTMLElement): void {
    const add = (name: string, label: string, hint: string, act: () => void): void => {
      const button = document.createElement("button");
      button.textContent = label;
      button.title = hint;
      button.addEventListener("click", act);
      this.buttons.set(name, button);
      bar.append(button);
    };
    const rate = this.page.clips[0]?.rateHz ?? 60;
    add("start", "|‹", "Start (Home)", () => this.clock.seek(this.clock.startS));
    add("back", "‹", "One frame back (←)", () => this.clock.step(-1, rate));
    add("play", "Pause", "Play or pause (Space)", () => (this.clock.isPlaying = !this.clock.isPlaying));
    add("next", "›", "One frame on (→)", () => this.clock.step(1, rate));
    const speeds = document.createElement("select");
    speeds.title = "Speed";
    speeds.setAttribute("aria-label", "Speed");
    for (const speed of SPEEDS) speeds.add(new Option(`${speed} ×`, String(speed), speed === 1, speed === 1));
    speeds.addEventListener("change", () => (this.clock.speed = Number(speeds.value)));
    bar.append(speeds, this.readout);
    for (const view of ["front", "side", "top", "free"] as const) {
      add(view, view[0].toUpperCase() + view.slice(1), `${view} view`, () => this.look(view));
    }
    add("follow", "Follow", "Camera follows the body (F)", () => this.toggleFollow());
    this.buttons.get("follow")!.setAttribute("aria-pressed", "true");
    if (this.page.clips.length > 1) add("apart", "Side by side", "Side by side, or in one place (S)", () => (this.isApart = !this.isApart));
    add("facts", "Facts", "What is known of the clips", () => (this.facts.hidden = !this.facts.hidden));
    add("help", "?", "Keys (?)", () => this.host.querySelector("dialog")!.showModal());
  }

  private fillFacts(): void {
    for (const clip of this.page.clips) {
      const heading = document.createElement("h2");
      heading.textContent = clip.name;
      const table = document.createElement("table");
      fillTable(table, clip.facts);
      this.facts.append(heading, table);
    }
  }

  private toggleFollow(): void {
    this.isFollowing = !this.isFollowing;
    this.buttons.get("follow")!.setAttribute("aria-pressed", String(this.isFollowing));
  }

  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLSelectElement) return;
    const { clock } = this;
    const play = (speed: number): void => {
      clock.speed = speed;
      clock.isPlaying = true;
    };
    const keys: Record<string, () => void> = {
      " ": () => (clock.isPlaying = !clock.isPlaying),
      j: () => play(-1),
      k: () => (clock.isPlaying = false),
      l: () => play(1),
      "1": () => this.look("front"),
      "3": () => this.look("side"),
      "7": () => this.look("top"),
      "0": () => this.look("free"),
      f: () => this.toggleFollow(),
      s: () => (this.isApart = !this.isApart),
      "?": () => this.host.querySelector("dialog")!.showModal(),
    };
    // Steps and ranges are the timeline's, wherever the focus is
    const act = TIMELINE_KEYS.test(event.key) ? () => this.timeline.press(event) : keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  }
}

function fillTable(table: HTMLTableElement, rows: [string, string][]): void {
  for (const texts of rows) {
    const row = table.insertRow();
    for (const text of texts) row.insertCell().textContent = text;
  }
}

/** Height of what the capsules hold at the body's present pose [m]. */
function bodySize(body: Body): number {
  let [low, high] = [Infinity, -Infinity];
  for (let p = 1; p < body.pose.positions.length; p += 3) {
    low = Math.min(low, body.pose.positions[p]);
    high = Math.max(high, body.pose.positions[p]);
  }
  return Math.max(0.2, high - low);
}
