import { decode, encode } from "@msgpack/msgpack";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Session } from "../src/project/session";
import type { Wire } from "../src/protocol/socket";
import { importFiles } from "../src/shell/files";
import { boneLines } from "../src/tools/library/library";

const PROJECT = { name: "p", clips: {}, takes: {}, characters: {}, world: {}, sketch: {}, timeline: { strips: [], markers: [], range_s: null, rate_hz: 60 } };

/** A session over wires that a test plays the server of; the last one is `wire`. */
function setUp() {
  const sent: Record<string, unknown>[] = [];
  const wires: Wire[] = [];
  const session = new Session(() => {
    const wire: Wire = { binaryType: "", readyState: 1, bufferedAmount: 0, send: (data) => sent.push(decode(data.subarray(4, 4 + data[0] + 256 * data[1])) as never), close: () => {}, onopen: null, onmessage: null, onclose: null };
    wires.push(wire);
    return wire;
  });
  const receive = (header: object): void => {
    const bytes = encode(header);
    const frame = new Uint8Array(Math.ceil((4 + bytes.length) / 8) * 8);
    new DataView(frame.buffer).setUint32(0, bytes.length, true);
    frame.set(bytes, 4);
    wires.at(-1)!.onmessage?.({ data: frame.buffer } as MessageEvent);
  };
  const welcome = (project: object = PROJECT): void => {
    wires.at(-1)!.onopen?.({} as Event);
    receive({ t: "welcome", version: 1, seq: 7, project, tools: [], jobs: [], undo: null, redo: null });
  };
  return { session, sent, wires, receive, welcome };
}

const job = (change: object) => ({ t: "job", id: "j", tool: "path", take: "", state: "running", fraction: 0.3, left_s: null, sentence: "", fix: "", result: {}, ...change });

afterEach(() => void vi.useRealTimers());

describe("a search", () => {
  it("shows its first motion while it runs, asks for its frames, and draws the ways of its solutions", () => {
    const { session, sent, receive, welcome } = setUp();
    welcome();
    receive(job({ result: { partial: "first", partials: { "k = 1": "first" } } }));
    expect(session.preview.value).toBe("first");
    session.clips.find(session.preview.value!); // as the viewport does
    expect(sent.some(({ t, hash }) => t === "want" && hash === "first")).toBe(true);
    receive(job({ result: { partial: "first", partials: { "k = 1": "first" }, ways: [{ k: 2, cost: 1, places: [[0, 0], [0, 1]] }] } }));
    expect(session.jobs.value[0].result.ways?.[0].places).toEqual([[0, 0], [0, 1]]);
    receive(job({ result: { partial: "second", partials: { "k = 1": "first", "k = 2": "second" } } }));
    expect([session.preview.value, session.ghosts.value]).toEqual(["second", { "k = 1": "first" }]);
    session.dispose();
  });
  it("leaves k = 1 as a ghost beside k = 2", () => {
    const { session, receive, welcome } = setUp();
    const take = (name: string, base: string) => ({ name, character: "", clip: "", recipe: null, layers: [], edits: [], base, result: base, state: "fresh", message: "" });
    welcome({ ...PROJECT, takes: { a: take("Path", "best"), b: take("k = 1", "plain") } });
    receive(job({ state: "done", result: { take: "a", takes: ["a", "b"] } }));
    expect(session.selected.value).toEqual({ kind: "take", id: "a" });
    expect(session.ghosts.value).toEqual({ "k = 1": "plain" });
    session.select({ kind: "take", id: "b" });
    expect(session.ghosts.value).toEqual({});
    session.dispose();
  });
});

describe("a server that is started again", () => {
  it("is greeted anew, and its document replaces the mirror", () => {
    vi.useFakeTimers();
    const { session, sent, wires, welcome } = setUp();
    welcome();
    wires[0].onclose?.({} as CloseEvent);
    expect(session.link.value).toBe("lost");
    vi.advanceTimersByTime(500);
    expect(wires.length).toBe(2);
    welcome({ ...PROJECT, name: "as of the last command" });
    expect(session.link.value).toBe("open");
    expect(session.project.value?.name).toBe("as of the last command");
    expect(sent.filter(({ t }) => t === "hello").length).toBe(2);
    session.dispose();
  });
});

describe("a sequence", () => {
  it("is asked for when it is played and when its strips change, and left by a selection or a tool", async () => {
    const { session, sent, receive, welcome } = setUp();
    const strip = { id: "s", take: "a", start_s: 0, in_s: 0, out_s: 1, blend_s: 0, loop: 1 };
    const take = { name: "walk", clip: "", layers: [], edits: [], base: "h", result: "h", recipe: null };
    welcome({ ...PROJECT, takes: { a: take }, timeline: { ...PROJECT.timeline, strips: [strip] } });
    const asked = () => sent.filter(({ t, what }) => t === "ask" && what === "sequence");
    expect([session.mainHash.value, asked().length]).toEqual(["h", 0]);
    session.isSequence.value = true;
    receive({ t: "answer", id: asked()[0].id, value: { hash: "joined" }, arrays: {} });
    await Promise.resolve();
    expect(session.mainHash.value).toBe("joined");
    receive({ t: "patch", seq: 8, label: "", id: "", undo: null, redo: null, patches: [{ path: ["timeline", "strips", 0, "start_s"], value: 0.5 }] });
    expect(asked().length).toBe(2);
    session.tool.value = "pose";
    expect(session.mainHash.value).toBe("h");
    session.tool.value = null;
    session.isSequence.value = true;
    session.select({ kind: "take", id: "a" });
    expect(session.isSequence.value).toBe(false);
    session.dispose();
  });
});

describe("dropped texts", () => {
  it("are played as scripts where Walk is open, and asked about elsewhere", async () => {
    const { session, sent, welcome } = setUp();
    welcome();
    vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ upload: "abc" })));
    const file = new File(["version = 1"], "mine.toml");
    session.tool.value = "clean";
    await importFiles(session, [file]);
    expect(session.toasts.value.at(-1)?.sentence).toContain("mine.toml");
    session.tool.value = "walk";
    await importFiles(session, [file]);
    expect(sent.at(-1)).toMatchObject({ t: "start", tool: "script", settings: { file: "abc" } });
    vi.unstubAllGlobals();
    session.dispose();
  });
});

describe("a thumbnail", () => {
  it("draws a line for each bone, feet down", () => {
    const figure = { places: Float32Array.of(0, 1, 0, 2, 0, 1, 0.5, 1), parents: [-1, 0], seconds: 1 };
    expect(boneLines(figure, 0, 40)).toEqual([[20, 0, 20, 20]]);
    expect(boneLines(figure, 1, 40)).toEqual([[30, 20, 20, 20]]);
  });
});
