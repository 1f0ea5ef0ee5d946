import { encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { applyPatches, shownHash, sourceHash } from "../src/project/document";
import { BLOCK_FRAMES, BlockCache } from "../src/project/clips";
import type { ProjectDocument, ServerMessage } from "../build/messages";
import { decodeFrame, encodeFrame, Socket, type Wire } from "../src/protocol/socket";
import { keyName } from "../src/shell/commands";
import { matchScore } from "../src/shell/dialogs";
import { DragChannel } from "../src/tools/live";

/** A frame as the server writes it, with one array of floats. */
function serverFrame(header: object, floats: number[] = []): ArrayBuffer {
  const bytes = encode(header);
  const body = Math.ceil((4 + bytes.length) / 8) * 8;
  const frame = new Uint8Array(body + 4 * floats.length);
  new DataView(frame.buffer).setUint32(0, bytes.length, true);
  frame.set(bytes, 4);
  frame.set(new Uint8Array(new Float32Array(floats).buffer), body);
  return frame.buffer;
}

describe("frames", () => {
  it("give arrays as views of the received bytes", () => {
    const buffer = serverFrame({ t: "block", hash: "h", first: 0, roots: { $: [0, "f4", [1, 3]] } }, [1, 2, 3]);
    const message = decodeFrame(buffer) as Extract<ServerMessage, { t: "block" }>;
    expect(Array.from(message.roots)).toEqual([1, 2, 3]);
    expect(message.roots.buffer).toBe(buffer);
  });
  it("are refused where an array lies outside, or the header is cut", () => {
    expect(() => decodeFrame(serverFrame({ t: "block", roots: { $: [0, "f4", [9]] } }, [1]))).toThrow(/outside/);
    expect(() => decodeFrame(serverFrame({ t: "block", roots: { $: [0, "x9", [1]] } }, [1]))).toThrow(/outside/);
    expect(() => decodeFrame(new Uint8Array([255, 0, 0, 0, 1]).buffer)).toThrow(/announces/);
    expect(() => decodeFrame(serverFrame({ no: "type" }))).toThrow(/no type/);
  });
  it("begin with the length of a header that is padded to eight bytes", () => {
    const frame = encodeFrame({ t: "hello", version: 1 });
    expect(frame.length % 8).toBe(0);
    expect(new DataView(frame.buffer).getUint32(0, true)).toBeLessThanOrEqual(frame.length - 4);
  });
});

describe("patches", () => {
  const tree = { takes: { a: { name: "one", edits: [1, 2, 3] } }, clips: { c: { name: "walk" } } };
  it("set, insert and remove, and leave other branches the same objects", () => {
    const next = applyPatches(tree, [
      { path: ["takes", "a", "name"], value: "two" },
      { path: ["takes", "a", "edits", 1], insert: 9 },
      { path: ["takes", "a", "edits", 0], remove: true },
    ]);
    expect(next.takes.a).toEqual({ name: "two", edits: [9, 2, 3] });
    expect(next.clips).toBe(tree.clips);
    expect(tree.takes.a).toEqual({ name: "one", edits: [1, 2, 3] });
  });
  it("fail where the document has no such place", () => {
    expect(() => applyPatches(tree, [{ path: ["nowhere", "a", "b"], value: 1 }])).toThrow(/nothing at/);
  });
});

describe("what a take shows", () => {
  const project = { clips: { c: { hash: "raw" } }, takes: { t: { clip: "c", base: "made", result: null }, u: { clip: "c", base: "raw", result: null } } } as unknown as ProjectDocument;
  it("is its result, else its base; the source is told where it differs", () => {
    expect(shownHash(project, { kind: "take", id: "t" })).toBe("made");
    expect(sourceHash(project, { kind: "take", id: "t" })).toBe("raw");
    expect(sourceHash(project, { kind: "take", id: "u" })).toBeNull();
    expect(shownHash(project, { kind: "take", id: "gone" })).toBeNull();
  });
});

describe("blocks", () => {
  const block = (first: number, floats = 100) => ({ first, roots: new Float32Array(floats), rotations: new Float32Array(0), translations: null });
  it("are asked for once, and found when they have come", () => {
    const asked: number[] = [];
    const cache = new BlockCache((_, first) => asked.push(first));
    expect(cache.find("h", 1030)).toBeNull();
    expect(cache.find("h", 1500)).toBeNull();
    expect(asked).toEqual([BLOCK_FRAMES]);
    cache.put("h", block(BLOCK_FRAMES));
    expect(cache.find("h", 1500)?.first).toBe(BLOCK_FRAMES);
  });
  it("leave in the order of their last use, and never exceed the limit", () => {
    const cache = new BlockCache(() => {}, 1000);
    cache.put("h", block(0));
    cache.put("h", block(BLOCK_FRAMES));
    cache.find("h", 0);
    cache.put("h", block(2 * BLOCK_FRAMES));
    expect(cache.has("h", 0)).toBe(true);
    expect(cache.has("h", BLOCK_FRAMES)).toBe(false);
    expect(cache.bytes).toBeLessThanOrEqual(1000);
  });
  it("fill the rest of a clip from the playhead onwards", () => {
    const asked: number[] = [];
    const cache = new BlockCache((_, first) => asked.push(first));
    cache.put("h", block(BLOCK_FRAMES));
    cache.prefetch("h", BLOCK_FRAMES + 5, 3 * BLOCK_FRAMES);
    expect(asked).toEqual([2 * BLOCK_FRAMES]);
  });
});

describe("the socket", () => {
  const setUp = () => {
    const sent: Uint8Array[] = [];
    const wire: Wire = { binaryType: "", readyState: 1, bufferedAmount: 0, send: (data) => sent.push(data), close: () => {}, onopen: null, onmessage: null, onclose: null };
    const seen: string[] = [];
    const socket = new Socket({ t: "hello", version: 1 }, { onLink: (link) => seen.push(link), onMessage: (message) => seen.push(message.t), onGap: () => seen.push("gap") }, () => wire);
    const receive = (header: object): void => wire.onmessage?.({ data: serverFrame(header) } as MessageEvent);
    return { socket, wire, sent, seen, receive };
  };
  it("keeps messages until the welcome", () => {
    const { socket, wire, sent, receive } = setUp();
    socket.send({ t: "undo" });
    wire.onopen?.({} as Event);
    expect(sent.length).toBe(1);
    receive({ t: "welcome", seq: 4 });
    expect(sent.length).toBe(2);
    socket.dispose();
  });
  it("says hello again after a gap, and drops what it knows", () => {
    const { socket, sent, seen, receive } = setUp();
    receive({ t: "welcome", seq: 4 });
    receive({ t: "patch", seq: 5 });
    receive({ t: "patch", seq: 5 });
    receive({ t: "patch", seq: 7 });
    expect(seen).toEqual(["connecting", "open", "welcome", "patch", "gap"]);
    expect(sent.length).toBe(1);
    socket.dispose();
  });
  it("stays lost while it tries again, until the welcome", () => {
    const { socket, wire, seen, receive } = setUp();
    receive({ t: "welcome", seq: 0 });
    wire.onclose?.({} as CloseEvent);
    socket.retry();
    expect(seen.at(-1)).toBe("lost");
    receive({ t: "welcome", seq: 1 });
    expect(seen).toEqual(["connecting", "open", "welcome", "lost", "open", "welcome"]);
    socket.dispose();
  });
});

describe("drags", () => {
  it("have one question under way, and ask with the newest place and the oldest wait when its answer comes", () => {
    const sent: [string, unknown][] = [];
    let listen: (answer: never) => void = () => {};
    const shown: [n: number, movedMs: number][] = [];
    const wire = {
      openChannel: (listener: (answer: never) => void) => {
        listen = listener;
        return "c";
      },
      closeChannel: () => {},
      sendDrag: (_channel: string, phase: string, _tool: string, args: Record<string, unknown>) => sent.push([phase, args.x]) > 0,
    };
    const drag = new DragChannel(wire as never, "pose", {}, ({ n }, movedMs) => shown.push([n, movedMs]));
    const answer = (n: number): void => listen({ n, arrays: {}, facts: {} } as never);
    for (const x of [1, 2, 3]) drag.move({ x }, 10 * x);
    answer(1);
    answer(1); // late: its question is answered already
    answer(2);
    drag.move({ x: 4 }, 40);
    drag.end({ x: 5 });
    answer(3);
    expect(sent).toEqual([["begin", undefined], ["move", 1], ["move", 3], ["move", 4], ["end", 5]]);
    expect(shown).toEqual([[1, 10], [2, 20]]);
  });
});

describe("keys and words", () => {
  it("name chords as the commands write them", () => {
    const key = (name: string, more = {}): string => keyName({ key: name, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...more });
    expect(key("z", { ctrlKey: true, shiftKey: true })).toBe("Ctrl+Shift+Z");
    expect(key("?", { shiftKey: true })).toBe("?");
    expect(key(" ")).toBe("Space");
  });
  it("find commands by letters in order, whole words first", () => {
    expect(matchScore("Play or pause", "pop")).toBeGreaterThan(0);
    expect(matchScore("Onion skins", "onion")).toBeGreaterThan(matchScore("Show the options in one", "onion"));
    expect(matchScore("Front view", "zz")).toBe(0);
  });
});
