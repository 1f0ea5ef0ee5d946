/** One socket to the server: binary frames, hello, reconnection with growing pauses, and a fresh hello after a gap in the sequence. */

import { decode, encode } from "@msgpack/msgpack";
import type { ClientMessage, HelloMessage, ServerMessage } from "../../build/messages";

export type Link = "connecting" | "open" | "lost";

interface SocketEvents {
  onLink(link: Link): void;
  onMessage(message: ServerMessage): void;
  /** A patch was missed: the mirror is to be thrown away when the next welcome comes. */
  onGap(): void;
}

const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8000;
const BUFFER_LIMIT = 4 << 20; // bytes that wait in the socket before drags are left out

/** What of a WebSocket is used, so that tests can stand in for it. */
export interface Wire {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  send(data: Uint8Array<ArrayBuffer>): void;
  close(): void;
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
}

export class Socket {
  private wire: Wire | null = null;
  private seq = -1;
  private pauseMs = FIRST_PAUSE_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isGreeted = false;
  private waiting: ClientMessage[] = [];

  constructor(
    private readonly hello: HelloMessage,
    private readonly events: SocketEvents,
    private readonly open: () => Wire,
  ) {
    this.events.onLink("connecting");
    this.connect();
  }

  /** Send now, or after the next welcome. */
  send(message: ClientMessage): void {
    if (this.isGreeted && this.wire?.readyState === 1) this.wire.send(encodeFrame(message));
    else this.waiting.push(message);
  }

  /** Send now or not at all: for drags and live input, of which only the newest counts. Tells whether it was sent. */
  sendNow(message: ClientMessage): boolean {
    if (!this.isGreeted || this.wire?.readyState !== 1 || this.wire.bufferedAmount > BUFFER_LIMIT) return false;
    this.wire.send(encodeFrame(message));
    return true;
  }

  /** Try at once, instead of when the pause is over. */
  retry(): void {
    if (this.wire !== null) return;
    clearTimeout(this.timer);
    this.connect();
  }

  dispose(): void {
    clearTimeout(this.timer);
    if (this.wire !== null) this.wire.onclose = null;
    this.wire?.close();
  }

  private connect(): void {
    const wire = this.open();
    this.wire = wire;
    wire.binaryType = "arraybuffer";
    wire.onopen = () => wire.send(encodeFrame(this.hello));
    wire.onmessage = (event) => this.receive(event.data as ArrayBuffer);
    wire.onclose = () => {
      this.wire = null;
      this.isGreeted = false;
      this.events.onLink("lost");
      // The link stays "lost" while it is tried again, so that the sign in the corner does not flicker
      this.timer = setTimeout(() => this.connect(), this.pauseMs);
      this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
    };
  }

  private receive(data: ArrayBuffer): void {
    const message = decodeFrame(data);
    if (message.t === "welcome") {
      this.seq = message.seq;
      this.pauseMs = FIRST_PAUSE_MS;
      this.isGreeted = true;
      this.events.onLink("open");
      this.events.onMessage(message);
      for (const late of this.waiting.splice(0)) this.send(late);
      return;
    }
    if (message.t === "patch") {
      const seq = message.seq;
      if (seq <= this.seq) return; // known already
      if (seq !== this.seq + 1) {
        this.isGreeted = false;
        this.events.onGap();
        this.wire?.send(encodeFrame(this.hello));
        return;
      }
      this.seq = seq;
    }
    this.events.onMessage(message);
  }
}

const KINDS = { f4: Float32Array, i4: Int32Array, u1: Uint8Array } as const;
const ALIGN = 8;

function align(bytes: number): number {
  return Math.ceil(bytes / ALIGN) * ALIGN;
}

/** Read one frame; arrays become views of the buffer, without a copy. */
export function decodeFrame(buffer: ArrayBuffer): ServerMessage {
  if (buffer.byteLength < 4) throw new Error("a frame is shorter than its header");
  const size = new DataView(buffer).getUint32(0, true);
  if (4 + size > buffer.byteLength) throw new Error(`a frame of ${buffer.byteLength} bytes announces ${size}`);
  const header = decode(new Uint8Array(buffer, 4, size));
  const body = align(4 + size);
  const message = restore(header, buffer, body);
  if (typeof message !== "object" || message === null || typeof (message as ServerMessage).t !== "string") {
    throw new Error("a frame has no type");
  }
  return message as ServerMessage;
}

function restore(value: unknown, buffer: ArrayBuffer, body: number): unknown {
  if (Array.isArray(value)) return value.map((item) => restore(item, buffer, body));
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  const entries = value as Record<string, unknown>;
  if (Array.isArray(entries.$)) {
    const [offset, kind, shape] = entries.$ as [number, keyof typeof KINDS, number[]];
    const count = shape.reduce((product, side) => product * side, 1);
    const at = body + offset;
    const Kind = KINDS[kind];
    if (Kind === undefined || offset < 0 || at + count * Kind.BYTES_PER_ELEMENT > buffer.byteLength) {
      throw new Error(`an array of a frame lies outside it: ${kind} ${shape.join(" x ")}`);
    }
    return new Kind(buffer, at, count);
  }
  const out: Record<string, unknown> = {};
  for (const key of Object.keys(entries)) out[key] = restore(entries[key], buffer, body);
  return out;
}

/** Write one frame. The page sends no arrays; its messages are small. */
export function encodeFrame(message: ClientMessage): Uint8Array<ArrayBuffer> {
  const header = encode(message, { ignoreUndefined: true });
  const frame = new Uint8Array(align(4 + header.length));
  new DataView(frame.buffer).setUint32(0, header.length, true);
  frame.set(header, 4);
  return frame;
}
